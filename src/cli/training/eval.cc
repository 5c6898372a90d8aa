// convoy eval: how good a trained network is.
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/rows.h"
#include "cli/training/ranks.h"
#include "cli/training/trained_options.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/data/comm_peers.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/memory.h"
#include "convoy/train/threads.h"

namespace convoy::cli {
namespace {

struct Arguments {
  TrainedOptions trained;
  RankOptions ranks;
};

void print(const Arguments& arguments, const train::Trained& trained, int ranks,
           const train::Evaluation& e) {
  Rows rows(arguments.trained.json);
  rows.add({{"source", trained.source},
            {"model", trained.recipe.model.name},
            {"ranks", ranks},
            {"samples", e.samples},
            {"top1", e.top1_accuracy()},
            {"top5", e.top5_accuracy()},
            {"top1_count", e.top1},
            {"top5_count", e.top5},
            {"loss", e.loss},
            {"skipped", e.skipped},
            {"time_s", e.seconds}});
  if (rows.on_standard_output()) return;
  std::printf("%s, %s\n", trained.recipe.model.name.c_str(), trained.source.c_str());
  std::printf("  top-1  %8.2f%%  (%llu of %llu)\n", 100 * e.top1_accuracy(),
              static_cast<unsigned long long>(e.top1), static_cast<unsigned long long>(e.samples));
  std::printf("  top-5  %8.2f%%\n  loss   %9.4f\n", 100 * e.top5_accuracy(), e.loss);
  if (e.skipped > 0) {
    std::printf("  %llu records could not be decoded and were left out\n",
                static_cast<unsigned long long>(e.skipped));
  }
  std::printf("  in %s on %d rank%s\n", format_seconds(e.seconds).c_str(), ranks,
              ranks == 1 ? "" : "s");
}

int run(const Arguments& arguments) {
  const std::string& json = arguments.trained.json;
  if (!json.empty() && json != "-") Rows check(json);
  train::Registry registry;
  const train::Trained trained = load_trained(registry, arguments.trained);
  if (!trained.recipe.data.has_validation) {
    throw UsageError(
        "the recipe has no [data.validation]; name it, for example with --set "
        "data.validation.path=FOLDER");
  }
  become_ranks(arguments.ranks, static_cast<int>(trained.recipe.threads));
  return in_world(arguments.ranks, "eval", [&](comm::World& world) {
    train::set_threads(world, static_cast<int>(trained.recipe.threads));
    train::keep_large_blocks({.processes = world.local_size()});
    data::CommPeers peers(world.communicator());
    const auto data =
        registry.open_data(trained.recipe.data.reader, trained.recipe.data.validation, peers);
    train::EvaluationOptions options;
    options.on_skip = [log = world.log()](const std::string& text) { log.warning(text); };
    const train::Evaluation evaluation =
        train::evaluate(world.communicator(), *trained.network, data, trained.recipe, options);
    if (world.rank() == 0) print(arguments, trained, world.size(), evaluation);
    return 0;
  });
}

}  // namespace

void add_eval_command(CLI::App& app, Outcome& outcome) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("eval", "Evaluate a run, a checkpoint, or a recipe with model.weights");
  add_trained_options(*command, arguments->trained, "The figures as JSON");
  add_rank_options(*command, arguments->ranks);
  command->callback([arguments, &outcome] { outcome.exit_status = run(*arguments); });
}

}  // namespace convoy::cli
