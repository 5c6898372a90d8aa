// convoy plan machine: which change of the machine pays most.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "cli/checks.h"
#include "cli/plan/changes.h"
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

struct Case {
  plan::UpdateLaw law;
  plan::Machine machine;
  std::int64_t batch = 0;
  std::int64_t workers = 0;
  bool trusted = false;  // the law
  std::vector<std::string> warnings;
};

void print_changes(const Case& c, double factor, Rows& rows, std::FILE* out) {
  const double now = plan::convergence_seconds(c.law, c.machine, c.batch, c.workers);
  const double best = plan::optimal_batch(c.law, c.machine, c.workers);
  const double best_s = plan::optimal_seconds(c.law, c.machine, c.workers);
  rows.add({{"kind", "now"},
            {"batch", c.batch},
            {"workers", c.workers},
            {"seconds", now},
            {"best_batch", best},
            {"best_seconds", best_s},
            {"trusted", c.trusted},
            {"warnings", c.warnings}});
  std::fprintf(out, "%lld worker%s, batch %lld: %s to the target; with the best batch, %s, %s\n\n",
               static_cast<long long>(c.workers), c.workers == 1 ? "" : "s",
               static_cast<long long>(c.batch), format_seconds(now).c_str(),
               short_text(best).c_str(), format_seconds(best_s).c_str());
  std::fprintf(out,
               "%s times as good   with batch %-6lld  speed-up   with the best batch  speed-up\n",
               short_text(factor).c_str(), static_cast<long long>(c.batch));
  for (const Change& change : changes_of(c.law, c.machine, c.batch, c.workers, factor)) {
    const std::string at = change.seconds ? format_seconds(*change.seconds) : "-";
    const double speedup = change.seconds ? now / *change.seconds : 0;
    std::fprintf(out, "  %-16s %-18s %8s   %-10s of %-7s %8s\n", change.change.c_str(), at.c_str(),
                 change.seconds ? short_text(speedup).c_str() : "-",
                 format_seconds(change.best.seconds).c_str(), short_text(change.best.batch).c_str(),
                 short_text(change.best.speedup).c_str());
    rows.add({{"kind", "change"},
              {"change", change.change},
              {"factor", factor},
              {"seconds", change.seconds ? Json(*change.seconds) : Json(nullptr)},
              {"best_batch", change.best.batch},
              {"best_seconds", change.best.seconds},
              {"best_speedup", change.best.speedup}});
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

void print_design(const Case& c, const PriceList& list, Rows& rows, std::FILE* out) {
  const plan::Prices prices = prices_of(list, c.machine);
  const double cost = plan::cost(prices, c.machine, c.workers);
  std::fprintf(out, "\nthis machine costs %s", short_text(cost).c_str());
  Json row{{"kind", "design"}, {"cost", cost}};
  if (c.workers > 1) {
    const plan::Balance balance =
        plan::balance(c.law, c.machine, static_cast<double>(c.workers), prices);
    std::fprintf(out, "; %s\n", balance_text(balance).c_str());
    row["saved_by_workers"] = balance.saved_by_workers;
    row["saved_by_bandwidth"] = balance.saved_by_bandwidth;
    if (balance.saved_by_processors) row["saved_by_processors"] = *balance.saved_by_processors;
  } else {
    std::fprintf(out, "\n");
  }
  const plan::Design design =
      plan::best_design(c.law, c.machine, prices, list.budget, list.most_workers);
  const double delta = plan::delta_seconds(c.machine.communication);
  const double faster = delta / plan::delta_seconds(design.machine.communication);
  const std::string what = design.workers == 1
                               ? "one worker without a network"
                               : std::to_string(design.workers) + " workers and a network " +
                                     short_text(faster) + " times as fast";
  std::fprintf(out, "for a budget of %s: %s, batch %s: %s to the target, for %s\n",
               short_text(list.budget).c_str(), what.c_str(), short_text(design.batch).c_str(),
               format_seconds(design.seconds).c_str(), short_text(design.cost).c_str());
  row.update({{"budget", list.budget},
              {"workers", design.workers},
              {"bandwidth_factor", design.workers == 1 ? Json(nullptr) : Json(faster)},
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
  const double floor = measured.updates.law.updates_at_infinity;
  if (!(floor > 0)) {
    throw UsageError("the updates to the target fall without a floor (N_inf is " +
                     short_text(floor) +
                     "), so no batch is the best and no change of the machine can be weighed; "
                     "measure larger batches, or more seeds, with `convoy plan batch`");
  }
  for (const std::string& warning : measured.updates.warnings)
    std::fprintf(out, "warning: %s\n", warning.c_str());
  const Case one{measured.updates.law,     plan::of_equation_4(measured.machine),
                 arguments.batch,          arguments.workers,
                 measured.updates.trusted, measured.updates.warnings};
  print_changes(one, arguments.factor, rows, out);
  if (prices) print_design(one, *prices, rows, out);
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
