// Everything that a run works with: opened and checked, and nothing touched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/compute.h"
#include "convoy/train/evaluate.h"
#include "convoy/train/registry.h"
#include "train/checkpoint/resume.h"
#include "train/setup.h"

namespace convoy::train {

// In the order in which they are made: each may be wrong in view of what was made before.
struct Inputs {
  // The task and the arrangement, before any file is opened. Throws UsageError for a recipe that
  // the world is not made for, and for a metric that the task doesn't have. `strategy` makes the
  // strategy; empty: the registry does. Collective.
  Inputs(const comm::World& world, const Registry& registry, Recipe& recipe,
         const StrategyFactory& strategy = {});

  // The data, the checkpoint to go on from if there is one to be ("" for none), and the network.
  // The recipe then has what its strategy has chosen. Throws UsageError naming what is wrong.
  // Collective.
  void open(const Registry& registry, const std::string& resume);

  // Whether this score (Evaluation::score) of the target's metric is as good as training.target.
  bool reached(double score) const;

  const comm::World& world;
  Recipe& recipe;
  Compute compute;
  std::unique_ptr<Task> task;
  std::string best;              // the metric that the best checkpoint goes by
  std::string figure;            // the same, and of which samples it is unless of all validation's
  std::optional<Metric> target;  // that of training.target
  std::unique_ptr<Strategy> strategy;
  Arrangement arrangement;
  DataSets data;
  std::shared_ptr<const data::Dataset> evaluated;  // what evaluations are on; null: there are none
  std::shared_ptr<const data::Dataset> evaluated_training;  // and are as well; null: nothing
  std::optional<std::uint64_t> measured_on;                 // Manifest::measured_on, of this run
  std::optional<Origin> origin;                             // if this run goes on
  bool epoch_was_over = false;                              // there, and reported

  bool owner() const { return world.rank() == arrangement.owner; }
  const comm::Communicator& all() const { return world.communicator(); }
};

// The samples of training, at the shares of the arrangement. Collective.
std::unique_ptr<data::SampleSource> open_training(const Inputs& inputs, std::size_t least_share);

}  // namespace convoy::train
