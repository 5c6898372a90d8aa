// convoy status: what a job on a parameter server is doing.
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/rows.h"
#include "cli/server/job_data.h"
#include "cli/server/status_view.h"
#include "cli/server/tls_options.h"
#include "cli/writes.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/server/client.h"

namespace convoy::cli {
namespace {

constexpr const char* kStatusDescription =
    "Show the shards, servers and replicas of a job on a parameter server\n"
    "Asks its coordinator; of a run on this machine the run folder is enough.";
constexpr int kColumns = 80;
constexpr std::chrono::seconds kPatience{5};

struct StatusArguments {
  std::string coordinator;
  TlsOptions tls;
  std::string json;
  std::string ready;
  double watch_s = 0;
};

// "host:port", or the run folder of a job that was started here, or that of its servers' data.
std::string address_of(const std::string& text) {
  if (!std::filesystem::is_directory(text)) {
    if (text.find(':') == std::string::npos)
      throw UsageError("there is no folder " + text +
                       "; name the run folder of a job that was started here, or the address of "
                       "its coordinator, as 127.0.0.1:7400");
    return text;
  }
  auto record = JobData(text + "/server").record();
  if (!record) record = JobData(text).record();
  if (!record)
    throw UsageError(text +
                     " is the folder of no job on a parameter server that is under way; convoy "
                     "report shows how a run went that is over");
  return record->address;
}

class Source {
 public:
  explicit Source(const StatusArguments& arguments) {
    options_.coordinator = address_of(arguments.coordinator);
    options_.tls = tls_of(arguments.tls);
    options_.name = "convoy status";
    options_.role = server::ClientRole::observer;
    options_.patience = kPatience;
  }
  std::string ask() {
    if (!client_) client_ = std::make_unique<server::Client>(options_);
    return client_->status();
  }
  void begin_again() { client_.reset(); }

 private:
  server::ClientOptions options_;
  std::unique_ptr<server::Client> client_;
};

// 0: no terminal.
int columns_of_terminal() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1) return 0;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumns;
}

void show(const std::string& text, bool in_place) {
  if (!in_place) {
    std::fputs((text + "\n").c_str(), stdout);
  } else {
    // Each line over the one before, and nothing behind the last: no flicker.
    std::string drawn = "\x1b[H";
    for (const char c : text) drawn += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    std::fputs((drawn + "\x1b[J").c_str(), stdout);
  }
  std::fflush(stdout);
}

int watch(Source& source, Rows& rows, double interval_s) {
  const bool table = !rows.on_standard_output();
  const bool in_place = table && columns_of_terminal() > 0;
  if (in_place) std::fputs("\x1b[2J", stdout);
  while (true) {
    bool over = false;
    std::string text;
    try {
      const std::string answer = source.ask();
      rows.add(nlohmann::ordered_json::parse(answer));
      const JobStatus status = read_job_status(answer);
      const int columns = columns_of_terminal();
      text = status_table(status, columns > 0 ? columns : kColumns);
      over = !status.ended.empty();
    } catch (const Failure& error) {
      text = std::string(error.what()) + "; asking again\n";
      source.begin_again();
    }
    if (table) show(text, in_place);
    if (over) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(interval_s));
  }
}

int check_ready(Source& source, const std::string& what) {
  const std::string why = not_ready(read_job_status(source.ask()), what);
  if (!why.empty()) std::printf("not ready: %s\n", why.c_str());
  return why.empty() ? 0 : kExitFailure;
}

int run_status(const StatusArguments& arguments) {
  Source source(arguments);
  if (!arguments.ready.empty()) return check_ready(source, arguments.ready);
  Rows rows(arguments.json);
  if (arguments.watch_s > 0) return watch(source, rows, arguments.watch_s);
  const std::string answer = source.ask();
  rows.add(nlohmann::ordered_json::parse(answer));
  if (rows.on_standard_output()) return 0;
  const int columns = columns_of_terminal();
  std::fputs(status_table(read_job_status(answer), columns > 0 ? columns : kColumns).c_str(),
             stdout);
  return 0;
}

}  // namespace

void add_status_command(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<StatusArguments>();
  CLI::App* command = app.add_subcommand("status", kStatusDescription);
  command->add_option("coordinator", arguments->coordinator, "Its address, or the run folder")
      ->type_name("HOST:PORT")
      ->required();
  CLI::Option* watch = command
                           ->add_option("--watch", arguments->watch_s,
                                        "Show it again after so long, until the job is over")
                           ->type_name("SECONDS")
                           ->check(positive_number());
  command
      ->add_option("--json", arguments->json,
                   "What the coordinator says, to this file, '-' for standard output")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command
      ->add_option("--ready", arguments->ready,
                   "Show nothing, exit with 0 if this is ready, else with 1 and a line that says "
                   "why not: job, coordinator, or a server (server-1)")
      ->type_name("WHAT")
      ->excludes(watch);
  add_tls_options(*command, arguments->tls);
  command->callback([arguments, &outcome] { outcome.exit_status = run_status(*arguments); });
}

}  // namespace convoy::cli
