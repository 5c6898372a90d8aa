// convoy eval: how good a trained network is.
#include <cstdio>
#include <memory>

#include "cli/rows.h"
#include "cli/torch_commands.h"
#include "cli/training/ranks.h"
#include "cli/training/trained_options.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "convoy/data/remarks.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/memory.h"

namespace convoy::cli {
namespace {

struct EvalArguments {
  TrainedOptions trained;
  RankOptions ranks;
};

void print(const EvalArguments& arguments, const train::Trained& trained, int ranks,
           const train::Evaluation& e) {
  Rows rows(arguments.trained.json);
  nlohmann::ordered_json row{{"source", trained.path()},
                             {"model", trained.recipe().model.name},
                             {"ranks", ranks},
                             {"samples", e.samples}};
  for (const auto& figure : e.figures) row[figure.metric.name] = figure.value;
  row["skipped"] = e.skipped;
  row["time_s"] = e.seconds;
  rows.add(row);
  if (rows.on_standard_output()) return;
  std::printf("%s, %s\n", trained.recipe().model.name.c_str(), trained.path().c_str());
  for (const auto& figure : e.figures) {
    const double value = figure.metric.percent ? 100 * figure.value : figure.value;
    std::printf(figure.metric.percent ? "  %-8s %8.2f%%\n" : "  %-8s %9.4f\n",
                figure.metric.title.c_str(), value);
  }
  if (e.skipped > 0) {
    std::printf("  %llu records could not be decoded and were left out\n",
                static_cast<unsigned long long>(e.skipped));
  }
  std::printf("  of %llu samples, in %s on %d rank%s\n", static_cast<unsigned long long>(e.samples),
              format_seconds(e.seconds).c_str(), ranks, ranks == 1 ? "" : "s");
}

int run_eval(const EvalArguments& arguments) {
  Rows::check(arguments.trained.json);
  train::Registry registry;
  // Before ranks are started: what is wrong is said once.
  const train::TrainedSource source = find_trained(registry, arguments.trained);
  const train::Recipe& recipe = source.recipe;
  if (!recipe.data.has_validation) {
    throw UsageError(
        "the recipe has no [data.validation]; name it, for example with --set "
        "data.validation.path=FOLDER");
  }
  check_is_named(recipe.data, "data.validation", recipe.data.validation);
  become_ranks(arguments.ranks, static_cast<int>(recipe.threads),
               arguments.ranks.ranks == 1 ? 1 : recipe.grid.partitions);
  return in_world(arguments.ranks, "eval", [&](comm::World& world) {
    train::keep_large_blocks({.processes = world.local_size()});
    train::Trained trained(world, registry, source);
    data::CommPeers peers(world.communicator());
    const auto data = registry.open_data(recipe.data.reader, recipe.data.validation, peers);
    if (const auto* const of = dynamic_cast<const data::Remarks*>(data.get()); of != nullptr) {
      for (const std::string& remark : of->remarks()) world.log().warning(remark);
    }
    train::EvaluationOptions options;
    options.on_skip = [log = world.log()](const std::string& text) { log.warning(text); };
    const train::Evaluation evaluation = trained.evaluate(data, options);
    if (world.rank() == 0) print(arguments, trained, world.size(), evaluation);
    return 0;
  });
}

}  // namespace

void fill_eval_command(CLI::App& command, Outcome& outcome) {
  auto arguments = std::make_shared<EvalArguments>();
  add_trained_options(command, arguments->trained, "The figures as JSON");
  add_rank_options(command, arguments->ranks);
  command.callback([arguments, &outcome] { outcome.exit_status = run_eval(*arguments); });
}

}  // namespace convoy::cli
