// A trained network and what it was trained with, from a checkpoint or a file of weights.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/compute.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"

namespace convoy::train {

// This is what a user names, found and checked, before anything is made of it.
struct TrainedSource {
  Recipe recipe;
  std::string path;                  // the checkpoint or weights
  std::optional<Manifest> manifest;  // of a checkpoint
};

// `path` is a checkpoint, a run folder (its newest checkpoint, or its best), or a recipe with
// model.weights. Loads the recipe's plugins into the registry. `overrides` are applied to the
// recipe. Throws UsageError.
TrainedSource find_trained(Registry& registry, const std::string& path, Which which,
                           const std::vector<std::string>& overrides);

// This is what a network makes of one sample of a data set.
struct SampleAnswer {
  std::size_t sample = 0;  // its number in the data
  std::string labels;      // as Task::labels says
  Answer answer;           // input: its key; error: why there is none
};
// Gets the answers of a batch, in the data's order: each sample once, over all calls.
using UseAnswers = std::function<void(const std::vector<SampleAnswer>& answers)>;

struct PredictionOptions {
  // Is called as EvaluationOptions::on_skip is.
  std::function<void(const std::string& message)> on_skip = {};
  // Is told on rank 0 what a user should know of the data.
  std::function<void(const std::string& message)> on_note = {};
};

// This is a network ready to be used by the ranks of a world, as its recipe's strategy arranges
// them.
class Trained {
 public:
  // Throws UsageError where source, data and world don't go together. The facts about the data come
  // from the checkpoint; with a file of weights, from the recipe's data. Collective.
  Trained(const comm::World& world, const Registry& registry, const TrainedSource& source);

  const Recipe& recipe() const { return source_.recipe; }
  const std::string& path() const { return source_.path; }
  const Task& task() const { return *task_; }

  // Says how good it is on this data, as evaluate() says. Throws UsageError for data that the
  // network can't take. Collective.
  Evaluation evaluate(const std::shared_ptr<const data::Dataset>& dataset,
                      const EvaluationOptions& options = {});
  // Gives what it makes of these inputs, as Task::predict says. Collective.
  std::vector<Answer> predict(const std::vector<std::string>& inputs, int most);
  // Gives what it makes of each sample of this data, prepared as for evaluate() and as
  // Task::answers says. Labels are not needed, nor need their classes be the network's. Calls `use`
  // on rank 0, batch by batch, one call at a time and from any thread; it may take long, and what
  // it throws ends this on every rank, a UsageError as such, anything else as Failure. No more than
  // a batch is held. Throws UsageError for data that the network can't take, that differs between
  // ranks, or that has bad records, unless data.on_bad is "skip": a bad record throws on the rank
  // that finds it alone. Collective.
  void predict(const std::shared_ptr<const data::Dataset>& dataset, int most, const UseAnswers& use,
               const PredictionOptions& options = {});

 private:
  Evaluated evaluated();
  // `what` names the data.
  void check_takes(const data::Dataset& dataset, const std::string& what);

  const comm::World& world_;
  TrainedSource source_;
  Compute compute_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Strategy> strategy_;
  Arrangement arrangement_;
};

}  // namespace convoy::train
