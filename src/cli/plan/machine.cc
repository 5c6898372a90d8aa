// convoy plan machine: which change of the machine pays most.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "cli/checks.h"
#include "cli/plan/changes.h"
#include "cli/plan/estimates.h"
#include "cli/plan/measured.h"
#include "cli/plan/numbers.h"
#include "cli/plan/subcommands.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

struct MachineArguments {
  MeasuredWords measured;
  int batch = 0;
  int workers = 2;
  double factor = 2;
  std::string cost, json;
};

// "1.35", or "1.35 (1.28 to 1.41)" where anything is unsure of it.
std::string speedup_text(const plan::Estimate& speedup) {
  const std::string value = short_text(speedup.value), low = short_text(speedup.interval.low),
                    high = short_text(speedup.interval.high);
  return low == value && high == value ? value : value + " (" + low + " to " + high + ")";
}

// Columns of the table, and members of its row.
struct ChangeCells {
  std::string seconds = "-", batch = "-", speedup = "-";
};

ChangeCells add_cells(const std::optional<Change::WithBatch>& with, const std::string& prefix,
                      Json& row) {
  row[prefix + "seconds"] = with ? Json(with->seconds) : Json(nullptr);
  if (!with) {
    row[prefix + "speedup"] = nullptr;
    return {};
  }
  add(row, prefix + "speedup", with->speedup);
  return {format_seconds(with->seconds), short_text(with->batch), speedup_text(with->speedup)};
}

void print_changes(const PlannedTraining& t, double factor, Rows& rows, std::FILE* out) {
  const TrainingTime now = time_of(t);
  Json row{{"kind", "now"}, {"batch", t.batch}, {"workers", t.workers}};
  add(row, "seconds", now.seconds);
  row["best_batch"] = now.best ? Json(now.best->batch) : Json(nullptr);
  row["best_seconds"] = now.best ? Json(now.best->seconds) : Json(nullptr);
  row["trusted"] = t.updates.trusted;
  row["warnings"] = t.updates.warnings;
  rows.add(row);
  const std::string best = now.best ? "with the best batch, " + short_text(now.best->batch) + ", " +
                                          format_seconds(now.best->seconds)
                                    : "which batch is the best is not known";
  std::fprintf(out, "%lld worker%s, batch %lld: %s to the target; %s\n\n",
               static_cast<long long>(t.workers), t.workers == 1 ? "" : "s",
               static_cast<long long>(t.batch), text_of(now.seconds, format_seconds).c_str(),
               best.c_str());
  std::fprintf(out, "%s times as good   with batch %-6lld  speed-up               %s\n",
               short_text(factor).c_str(), static_cast<long long>(t.batch),
               now.best ? "with the best batch  speed-up" : "");
  for (const Change& change : changes_of(t, factor)) {
    row = {{"kind", "change"}, {"change", change.change}, {"factor", factor}};
    const ChangeCells same = add_cells(change.same, "", row);
    row["best_batch"] = change.best ? Json(change.best->batch) : Json(nullptr);
    const ChangeCells at_best = add_cells(change.best, "best_", row);
    rows.add(row);
    std::string line = "  ";
    const auto column = [&line](const std::string& text, std::size_t width) {
      line += text + std::string(width > text.size() ? width - text.size() : 1, ' ');
    };
    column(change.change, 17);
    column(same.seconds, 19);
    column(same.speedup, 23);
    if (now.best) line += at_best.seconds + " of " + at_best.batch + "  " + at_best.speedup;
    std::fprintf(out, "%s\n", line.substr(0, line.find_last_not_of(' ') + 1).c_str());
  }
}

// "one more unit of money saves 1 ms of workers, ..., 2 ms of bandwidth: bandwidth pays most"
std::string balance_text(const plan::Balance& balance) {
  std::vector<std::pair<std::string, double>> sides{{"workers", balance.saved_by_workers}};
  if (balance.saved_by_processors)
    sides.emplace_back("faster processors", *balance.saved_by_processors);
  sides.emplace_back("bandwidth", balance.saved_by_bandwidth);
  std::string text = "one more unit of money saves ";
  std::string loses;
  const auto* best = &sides.front();
  for (const auto& side : sides) {
    if (&side != &sides.front()) text += ", ";
    text += format_seconds(side.second) + " of " + side.first;
    if (side.second > best->second) best = &side;
    if (side.second < 0) loses += (loses.empty() ? "" : ", ") + side.first;
  }
  if (best->second > 0) text += ": " + best->first + " pays most";
  if (!loses.empty())
    text += (best->second > 0 ? ", fewer of " : ": fewer of ") + loses + " would be sooner";
  return text;
}

// Equation 12 is one of the model: what is given in a table is left to it.
plan::Machine modeled(const PlannedTraining& t, std::FILE* out) {
  plan::Machine machine = plan::of_equation_4(t.machine.machine);
  if (machine.table.empty() && !t.machine.machine.table.empty()) {
    const double now = plan::convergence_seconds(t.updates.law, machine, t.batch, t.workers);
    std::fprintf(out,
                 "\nwhat to buy is told by gamma max(M, M_T) and t + gamma M, which have this "
                 "machine take %s, in place of its table of times",
                 format_seconds(now).c_str());
  }
  return machine;
}

void print_design(const PlannedTraining& t, const PriceList& list, Rows& rows, std::FILE* out) {
  const plan::Machine machine = modeled(t, out);
  const plan::UpdateLaw& law = t.updates.law;
  const plan::Prices prices = prices_of(list, machine);
  const double cost = plan::cost(prices, machine, t.workers);
  std::fprintf(out, "\nthis machine costs %s", short_text(cost).c_str());
  Json row{{"kind", "design"}, {"cost", cost}};
  if (t.workers > 1) {
    const plan::Balance balance =
        plan::balance(law, machine, static_cast<double>(t.workers), prices);
    std::fprintf(out, "; %s\n", balance_text(balance).c_str());
    row["saved_by_workers"] = balance.saved_by_workers;
    row["saved_by_bandwidth"] = balance.saved_by_bandwidth;
    if (balance.saved_by_processors) row["saved_by_processors"] = *balance.saved_by_processors;
  } else {
    std::fprintf(out, "\n");
  }
  const plan::Design design =
      plan::best_design(law, machine, prices, list.budget, list.most_workers, list.processors);
  const double delta = plan::delta_seconds(machine.communication);
  const double faster = delta / plan::delta_seconds(design.machine.communication);
  std::string what = design.workers == 1
                         ? "one worker without a network"
                         : std::to_string(design.workers) + " workers and a network " +
                               short_text(faster) + " times as fast";
  if (list.processors.slowest < list.processors.fastest)
    what += ", processors " + short_text(design.processor) + " times as fast";
  std::fprintf(out, "for a budget of %s: %s, batch %s: %s to the target, for %s\n",
               short_text(list.budget).c_str(), what.c_str(), short_text(design.batch).c_str(),
               format_seconds(design.seconds).c_str(), short_text(design.cost).c_str());
  row.update({{"budget", list.budget},
              {"workers", design.workers},
              {"bandwidth_factor", design.workers == 1 ? Json(nullptr) : Json(faster)},
              {"processor_factor", design.processor},
              {"batch", design.batch},
              {"seconds", design.seconds},
              {"design_cost", design.cost}});
  rows.add(row);
}

void run_machine(const MachineArguments& arguments) {
  Rows rows(arguments.json);
  std::FILE* out = rows.on_standard_output() ? stderr : stdout;
  std::optional<PriceList> prices;
  if (!arguments.cost.empty()) prices = read_prices(arguments.cost);
  const Measured measured = open_measured(arguments.measured);
  if (arguments.workers > arguments.batch) {
    throw UsageError("--workers " + std::to_string(arguments.workers) + " is more than --batch " +
                     std::to_string(arguments.batch) + ": each worker needs a sample");
  }
  if (arguments.batch > measured.planned.samples) {
    throw UsageError("--batch " + std::to_string(arguments.batch) + " is more than the data has: " +
                     std::to_string(measured.planned.samples) + " samples");
  }
  check_communication(measured, arguments.workers);
  if (prices && !measured.updates.trusted) {
    std::string why;
    for (const std::string& warning : measured.updates.warnings) why += "\n" + warning;
    throw UsageError(
        "--cost: the law of updates is not trusted, and what to buy rests on it; measure more with "
        "`convoy plan batch`" +
        why);
  }
  for (const auto* warnings : {&measured.updates.warnings, &measured.warnings}) {
    for (const std::string& warning : *warnings)
      std::fprintf(out, "warning: %s\n", warning.c_str());
  }
  const PlannedTraining training{measured.updates, measured.with_draws(), arguments.batch,
                                 arguments.workers, measured.planned.samples};
  print_changes(training, arguments.factor, rows, out);
  if (prices) print_design(training, *prices, rows, out);
}

}  // namespace

void add_plan_machine_command(CLI::App& plan) {
  auto arguments = std::make_shared<MachineArguments>();
  CLI::App* command = plan.add_subcommand(
      "machine", "Which change of the machine would bring a measured plan to its target soonest");
  add_measured_options(*command, arguments->measured);
  command->add_option("--batch", arguments->batch, "The mini-batch that is used")
      ->type_name("M")
      ->check(positive_integer())
      ->required();
  command->add_option("--workers", arguments->workers, "The workers that there are")
      ->type_name("P")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--factor", arguments->factor, "How much better each thing would be")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--cost", arguments->cost,
                   "Prices and a budget: what to buy more of, and the best machine for it")
      ->type_name("FILE");
  command->add_option("--json", arguments->json, "The table as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments] { run_machine(*arguments); });
}

}  // namespace convoy::cli
