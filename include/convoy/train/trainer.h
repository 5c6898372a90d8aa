// One training run: data, model, strategy, evaluation, checkpoints and metrics, as a recipe says.
//
//   convoy::World world = convoy::World::join();
//   convoy::train::Registry registry;
//   const auto text = convoy::train::read_recipe_file("mine.toml");
//   const auto recipe = convoy::train::parse_recipe(text, {}, registry.vocabulary());
//   const auto result = convoy::train::Trainer(world, registry, recipe).run();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::train {

inline constexpr const char* kResumeAuto = "auto";

struct TrainerOptions {
  // Go on from this checkpoint; "latest" for the newest in the run folder; kResumeAuto for the
  // newest if there is one, else begin, also in the folder of a run that ended before its first
  // checkpoint, whose metrics are replaced. Rank 0's counts.
  std::string resume;
  // In a run folder that holds a run already, or something under a name that runs use, this removes
  // what has the names of a run's files, instead of refusing.
  bool overwrite = false;
  // Show progress on standard output (rank 0).
  bool progress = true;
  // File for a timeline (convoy/train/timeline.h) of updates 11 to 20 of this run, or of the last
  // ten if it is shorter. Empty: none.
  std::string timeline;
  // This is what trains, for the records of the run ("convoy 0.1.0 (LibTorch ...)").
  std::string version;
  // Makes the strategy, instead of the registry by its name in the recipe: one that has connections
  // of its own, say.
  StrategyFactory strategy;
  // Ask to stop, on any rank; the trainer polls it in each update, before updates that take long,
  // and between the batches of an evaluation, which is broken off, and made up by the run that goes
  // on. Empty: nobody does. `convoy train` passes the signals SIGTERM, SIGINT and SIGUSR1 here.
  std::function<bool()> should_stop;
  // Is called on every rank when one of them was asked to stop while the trainer is made, before
  // anything in the run folder has changed: it should end the process. It, and should_stop until
  // the trainer is made, are called from another thread. Given on all ranks or on none; empty: such
  // a request is answered by run(), before the first update.
  std::function<void()> stop_in_set_up;
};

struct RunResult {
  std::int64_t steps = 0;
  double seconds = 0;
  double loss = 0;                       // of the last update
  std::optional<Evaluation> evaluation;  // the last one
  std::int64_t evaluated_at = 0;         // updates that had been done then
  std::string evaluated;                 // on what: "data.validation" or "data.train"
  bool target_reached = false;           // training.target, as the last evaluation found
  bool stopped = false;    // because it was asked to, before the end or its evaluation
  std::string folder;      // of metrics and checkpoints
  std::string checkpoint;  // the last one written
};

// "validation: top-1 93.10%, loss 0.2 of 40 samples" of one that has an evaluation; of earlier
// weights than the last ones with their step.
std::string evaluation_line(const RunResult& result);

class Trainer {
 public:
  // Collective. Takes the run folder for this run alone until destruction, checks that all ranks
  // have the same recipe and data (UsageError naming the first difference), opens the data, makes
  // the model and restores a checkpoint. Throws UsageError when another run has the folder, naming
  // it, and for what is wrong with recipe, data or checkpoint; nothing in the folder changes before
  // all of that is known to be right.
  Trainer(const comm::World& world, const Registry& registry, const Recipe& recipe,
          TrainerOptions options = {});
  ~Trainer();

  // Trains to the end, or until asked to stop. Collective.
  RunResult run();

  // Gives what this rank has of the network.
  torch::nn::Module& module() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::train
