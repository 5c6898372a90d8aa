// convoy certs: the certificates with which the processes of a job know each other.
#include <cstdio>
#include <ctime>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/rows.h"
#include "cli/server/certificate_folder.h"
#include "cli/writes.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

constexpr const char* kCertsDescription =
    "Make the certificates of a job's hosts, signed by a CA of its own, or check them\n"
    "What is there stays: hosts are added to the CA that the folder has.";
constexpr int kMostDays = 36500;

struct CertsArguments {
  std::string folder;
  std::string hosts;
  std::string json;
  CertificateOrder order;
  bool check = false;
};

std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string date(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

long days_left(const CertificateState& state) {
  const auto left = state.until - std::chrono::system_clock::now();
  return std::chrono::round<std::chrono::days>(left).count();
}

int check(const CertsArguments& arguments) {
  Rows rows(arguments.json);
  const bool table = !rows.on_standard_output();
  bool good = true;
  if (table) std::printf("%-20s %-18s %-28s %s\n", "file", "until (UTC)", "for", "state");
  for (const CertificateState& state : check_certificates(arguments.folder)) {
    good = good && state.problem.empty();
    const bool known = !state.name.empty() || state.until.time_since_epoch().count() != 0;
    rows.add({{"kind", state.authority ? "authority" : "certificate"},
              {"file", state.file},
              {"name", state.name},
              {"hosts", state.hosts},
              {"until", known ? date(state.until) : ""},
              {"days_left", known ? days_left(state) : 0},
              {"problem", state.problem}});
    if (!table) continue;
    const std::string whom = state.authority ? "the CA '" + state.name + "'" : list(state.hosts);
    const std::string how = state.problem.empty()
                                ? "good for " + std::to_string(days_left(state)) + " days"
                                : state.problem;
    std::printf("%-20s %-18s %-28s %s\n", state.file.c_str(),
                known ? date(state.until).c_str() : "-", whom.empty() ? "-" : whom.c_str(),
                how.c_str());
  }
  return good ? 0 : kExitFailure;
}

int make(CertsArguments arguments) {
  if (arguments.hosts.empty())
    throw UsageError("for which hosts? Write for example: convoy certs " + arguments.folder +
                     " --hosts node1,node2");
  arguments.order.hosts = parse_host_names(arguments.hosts);
  const CertificatesMade result = make_certificates(arguments.folder, arguments.order);
  const std::string folder = arguments.folder;
  if (result.authority)
    std::printf("a new CA in %s: ca.pem for every host, ca.key for nobody else\n", folder.c_str());
  for (const std::string& host : result.made)
    std::printf("%s: %s.pem and %s.key\n", host.c_str(), host.c_str(), host.c_str());
  if (!result.kept.empty())
    std::printf("kept, since they are there: %s (--renew makes new ones)\n",
                list(result.kept).c_str());
  if (!result.worthless.empty())
    std::printf("of another CA, and worth nothing with this one: %s\n",
                list(result.worthless).c_str());
  return 0;
}

}  // namespace

void add_certs_command(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<CertsArguments>();
  CertificateOrder& order = arguments->order;
  CLI::App* command = app.add_subcommand("certs", kCertsDescription);
  command->add_option("folder", arguments->folder, "Where they are, or will be")
      ->type_name("DIR")
      ->required()
      ->check(writes_folder(kCertificates));
  CLI::Option* hosts = command
                           ->add_option("--hosts", arguments->hosts,
                                        "Hosts, each with the other names and addresses that "
                                        "clients use: node1,node2+10.0.0.2")
                           ->type_name("LIST");
  command->add_option("--name", order.name, "What a new CA is called")->capture_default_str();
  command->add_option("--days", order.days, "How long certificates are good")
      ->type_name("N")
      ->check(positive_integer(kMostDays))
      ->capture_default_str();
  command->add_flag("--renew", order.renew, "Make new certificates for hosts that have one");
  command->add_flag("--new-ca", order.new_authority,
                    "Replace the CA: certificates that the old one signed are worth nothing then");
  command
      ->add_flag("--check", arguments->check,
                 "Say what each certificate is for, until when, and what is wrong with it; exits "
                 "with 1 if anything is")
      ->excludes(hosts);
  command
      ->add_option("--json", arguments->json,
                   "With --check: one object per certificate ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments, &outcome] {
    outcome.exit_status = arguments->check ? check(*arguments) : make(*arguments);
  });
}

}  // namespace convoy::cli
