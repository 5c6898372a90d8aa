// What a recipe names, opened and checked. Touches nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/comm/world.h"
#include "convoy/data/dataset.h"
#include "convoy/model/network.h"
#include "convoy/train/checkpoint_writer.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "train/checkpoint/resume.h"

namespace convoy::train {

struct DataSets {
  std::shared_ptr<data::Dataset> training;
  std::shared_ptr<const data::Dataset> validation;  // null: the recipe has none
  // What somebody should know of them, for the log of rank 0: files and classes that are left out.
  std::vector<std::string> remarks;
};

// Tells the task what they look like. Throws UsageError for data that it has no use for.
void look_at(const DataSets& data, const Recipe& recipe, Task& task);

// What the recipe is evaluated on: a part of one of these, or null where it is not.
std::shared_ptr<const data::Dataset> evaluated_part(const DataSets& data, const Recipe& recipe);

// What it is evaluated on besides, of data.train; null where it is not.
std::shared_ptr<const data::Dataset> evaluated_training(const DataSets& data, const Recipe& recipe);

// Throws UsageError when ranks see different data. Where all classes of the validation data are
// among those of training, its labels are counted as in training: it may lack some, or have them in
// another order. Collective.
DataSets open_data(const comm::Communicator& communicator, const Registry& registry,
                   const DataRecipe& recipe);

// The checkpoint that a run in `folder` goes on from, by open_origin(). Rank 0 decides, and alone
// reads the files: folders may look different from elsewhere. Collective.
Origin find_origin(const comm::Communicator& communicator, const std::string& which,
                   const std::string& folder);

// The network of a recipe, for data that its task has been told about. Refers to what it is given.
class RecipeNetwork final : public NetworkSource {
 public:
  RecipeNetwork(const Registry& registry, const Recipe& recipe, const Task& task,
                const Compute& compute, bool trains = true, bool goes_on = false)
      : registry_(registry),
        recipe_(recipe),
        task_(task),
        compute_(compute),
        trains_(trains),
        goes_on_(goes_on) {}

  std::shared_ptr<model::Network> whole() const override;
  std::optional<model::Blueprint> blueprint() const override;
  std::uint64_t seed() const override { return static_cast<std::uint64_t>(recipe_.seed); }
  const Recipe& recipe() const override { return recipe_; }
  const Task& task() const override { return task_; }
  const Compute& compute() const override { return compute_; }
  bool trains() const override { return trains_; }
  bool goes_on() const override { return goes_on_; }
  // Gives the network as data where the model is known so, and nothing where it would have to be
  // built for that.
  std::optional<model::Blueprint> described() const;

 private:
  ModelRequest request() const;
  void check_takes(model::Network& network) const;

  const Registry& registry_;
  const Recipe& recipe_;
  const Task& task_;
  const Compute& compute_;
  bool trains_, goes_on_;
};

// How few samples the network can be trained on: 2 where it refuses one alone (batch normalization
// of a single value), else 1. Changes nothing of it.
std::size_t least_samples(model::Network& network, const Task& task, const Compute& compute);

// The weights that a recipe starts from (ModelRecipe::weights), into what each rank has built of
// the network. The log has what they are, and a warning where pictures are prepared otherwise than
// for them. Throws UsageError on every rank as read_weights does. Collective.
void load_weights(const comm::World& world, const Recipe& recipe, const Task& task,
                  Strategy& strategy);

// What the checkpoints of a run have in common.
Manifest manifest_of(const Recipe& recipe, int world, const data::Dataset& training,
                     const TaskFacts& facts);

// How a run writes its checkpoints.
CheckpointOptions checkpoint_options(const Recipe& recipe, const comm::World& world);

}  // namespace convoy::train
