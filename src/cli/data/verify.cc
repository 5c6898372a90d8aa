// convoy verify: whether packed files are what they were.
#include <cstdio>
#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/data/bar.h"
#include "cli/data/words.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/names.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/data/packed.h"

namespace convoy::cli {
namespace {

struct VerifyArguments {
  std::vector<std::string> files;
  bool decode = false;
  int threads = 0;
  std::string json;
};

std::string text_of(const data::PackedProblem& p) {
  if (p.where == "index") return p.what;
  std::string text = p.where;
  if (!p.key.empty()) text += (p.where == "record" ? " " : ", before ") + printable(p.key);
  return text + " (" + std::to_string(p.length) + " bytes at " + std::to_string(p.offset) +
         "): " + p.what;
}

// Whether all was well.
bool verify(const std::string& file, const VerifyArguments& arguments, Rows& rows) {
  data::VerifyOptions options;
  options.decode = arguments.decode;
  options.threads =
      arguments.threads > 0 ? arguments.threads : static_cast<int>(usable_cores().size());
  Bar bar("verify", "MB", rows.on_standard_output());
  options.tell = [&bar](double done, double total) {
    bar.update(done / kMegabyte, total / kMegabyte);
  };
  const data::VerifyResult result = data::verify_packed(file, options);
  bar.finish();
  for (const data::PackedProblem& p : result.problems) {
    rows.add({{"kind", "problem"},
              {"file", file},
              {"where", p.where},
              {"key", p.key},
              {"offset", p.offset},
              {"bytes", p.length},
              {"what", p.what}});
    if (!rows.on_standard_output()) std::printf("%s: %s\n", file.c_str(), text_of(p).c_str());
  }
  rows.add({{"kind", "file"},
            {"file", file},
            {"records", result.records},
            {"bytes", result.bytes},
            {"decoded", arguments.decode},
            {"problems", result.problems.size()}});
  if (!rows.on_standard_output()) {
    std::printf("%s: %s, %s read, %s\n", file.c_str(), counted(result.records, "image").c_str(),
                format_bytes(result.bytes).c_str(),
                counted(result.problems.size(), "problem").c_str());
  }
  return result.problems.empty();
}

int run_verify(const VerifyArguments& arguments) {
  Rows rows(arguments.json);
  bool good = true;
  for (const std::string& file : arguments.files) good = verify(file, arguments, rows) && good;
  return good ? 0 : kExitFailure;
}

}  // namespace

void add_verify_command(CLI::App& app, Outcome& outcome) {
  const auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify",
                         "Compare every byte of packed files and their indexes with the checksums\n"
                         "Exits with 1 if anything differs, and says where.");
  command->add_option("files", arguments->files, "Packed files, each with its index beside it")
      ->type_name("FILE.tar")
      ->required();
  command->add_flag("--decode", arguments->decode, "Also decode every image");
  command->add_option("--threads", arguments->threads, "Threads (as many as there are cores)")
      ->type_name("T")
      ->check(positive_integer());
  command
      ->add_option("--json", arguments->json,
                   "One object per problem and file ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments, &outcome] { outcome.exit_status = run_verify(*arguments); });
}

}  // namespace convoy::cli
