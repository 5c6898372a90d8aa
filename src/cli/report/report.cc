// convoy report: a page about runs.
#include "convoy/train/report.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "convoy/base/files.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::vector<std::string> runs;
  std::string output;
};

void run(Arguments arguments) {
  if (arguments.output.empty()) {
    arguments.output = arguments.runs.size() == 1
                           ? (fs::path(arguments.runs.front()) / "report.html").string()
                           : "report.html";
  } else {
    check_output_file("--output", arguments.output);
  }
  const std::string page = train::make_report(arguments.runs);
  write_file_atomically(arguments.output, page);
  std::printf("report  %s (%s)\n", arguments.output.c_str(), format_bytes(page.size()).c_str());
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "report",
      "Make a page about runs: curves, where the time went, recipe, environment\n"
      "One HTML file that needs nothing else. Of several runs it shows curves in one picture, "
      "times\n"
      "to levels of accuracy, and scaling. A run may be going on. Needs gnuplot.");
  command->add_option("run", arguments->runs, "Run folders")->type_name("RUN");
  command
      ->add_option("-o,--output", arguments->output,
                   "The page; RUN/report.html for one run, report.html for several")
      ->type_name("FILE.html");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace convoy::cli
