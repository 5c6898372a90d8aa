// convoy report: a page about runs, and its figures.
#include "convoy/train/report.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using Row = nlohmann::ordered_json;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output;
  std::string json;
};

// The folder of a plan has a recipe, too.
void check_is_no_plan(const std::vector<std::string>& runs) {
  for (const std::string& run : runs) {
    if (!kPointsFile.is(begin_of_file(run + "/points.jsonl"))) continue;
    throw UsageError(run + " is the folder of a plan, not of a run; its page is " + run +
                     "/report.html, which convoy plan batch --resume writes anew");
  }
}

Row count_or_null(std::int64_t count, std::int64_t none) {
  return count == none ? Row(nullptr) : Row(count);
}
// Counts, which metrics.jsonl may have as numbers with a fraction.
Row number_or_null(double number) {
  if (!(number > 0)) return nullptr;
  constexpr double kMost = 1e15;
  if (number < kMost && number == std::floor(number)) return static_cast<std::int64_t>(number);
  return number;
}
// As it was meant, where computing has left a digit in the sixteenth place.
Row level_of(double level) {
  constexpr double kPlaces = 1e12;
  const double rounded = std::round(level * kPlaces) / kPlaces;
  return std::isfinite(rounded) ? rounded : level;
}

Row row_of(const train::RunFigures& f) {
  Row last = Row::object();
  for (const auto& [name, value] : f.final) last[name] = value;
  return {{"kind", "run"},
          {"run", f.name},
          {"folder", f.folder},
          {"state", f.state},
          {"model", f.model},
          {"strategy", f.strategy},
          {"steps", f.steps},
          {"planned_steps", count_or_null(f.planned_steps, 0)},
          {"parts", f.parts},
          {"epochs", f.epochs},
          {"elapsed_s", f.elapsed_s},
          {"ranks", number_or_null(f.ranks)},
          {"threads_per_rank", number_or_null(f.threads_per_rank)},
          {"batch", number_or_null(f.batch)},
          {"parameters", number_or_null(f.parameters)},
          {"training_samples", number_or_null(f.training_samples)},
          {"validation_samples", number_or_null(f.validation_samples)},
          {"unit", f.unit},
          {"units_per_s", f.rate},
          {"loss", f.loss},
          {"evaluated_at_step", count_or_null(f.evaluated_at, -1)},
          {"final", last},
          {"best_metric", f.best_metric},
          {"best", f.best},
          {"best_step", count_or_null(f.best_step, -1)},
          {"best_elapsed_s", f.best_elapsed_s}};
}

void write_figures(const train::ReportFigures& figures, Rows& rows) {
  for (const train::RunFigures& run : figures.runs) rows.add(row_of(run));
  for (const train::LevelTime& at : figures.levels) {
    rows.add({{"kind", "level"},
              {"metric", at.metric},
              {"level", level_of(at.level)},
              {"run", figures.runs[at.run].name},
              {"step", count_or_null(at.step, -1)},
              {"elapsed_s", at.elapsed_s}});
  }
  for (const train::SpeedUp& one : figures.speed_ups) {
    rows.add({{"kind", "speed_up"},
              {"group", one.group},
              {"run", figures.runs[one.run].name},
              {"ranks", number_or_null(one.ranks)},
              {"threads_per_rank", number_or_null(one.threads_per_rank)},
              {"batch", number_or_null(one.batch)},
              {"units_per_s", one.rate},
              {"speed_up", one.speed_up},
              {"ideal", one.ideal},
              {"efficiency", one.efficiency}});
  }
}

void run_report(ReportArguments arguments) {
  if (arguments.output.empty()) {
    arguments.output = arguments.runs.size() == 1
                           ? (fs::path(arguments.runs.front()) / "report.html").string()
                           : "report.html";
  } else {
    check_output_file("--output", arguments.output);
  }
  check_is_no_plan(arguments.runs);
  check_own_file("--output", arguments.output, kRunPage);
  if (arguments.json != "-") check_output_file("--json", arguments.json);
  const train::Report report(arguments.runs);
  // First: they need no gnuplot.
  Rows rows(arguments.json);
  if (!arguments.json.empty()) write_figures(report.figures(), rows);
  const std::string page = report.page();
  check_own_file("--output", arguments.output, kRunPage);  // gnuplot takes its time
  write_file_atomically(arguments.output, page);
  std::fprintf(rows.on_standard_output() ? stderr : stdout, "report  %s (%s)\n",
               arguments.output.c_str(), format_bytes(page.size()).c_str());
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
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
      ->type_name("FILE.html")
      ->check(writes_file(kRunPage));
  command
      ->add_option("--json", arguments->json,
                   "Write its figures, too: one JSON object per run, level and speed-up; '-' for "
                   "standard output")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments] { run_report(*arguments); });
}

}  // namespace convoy::cli
