// Updates that are made to be measured: those of a run, with its strategy, data and network,
// without what a run writes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/train/recipe.h"
#include "convoy/train/registry.h"
#include "convoy/train/strategy.h"
#include "convoy/train/timeline.h"

namespace convoy::train {

class Rehearsal {
 public:
  // Opens and checks what Trainer does, and touches no folder. Evaluation and checkpoints of the
  // recipe count for nothing. Refers to the world and the registry. Collective.
  Rehearsal(const comm::World& world, const Registry& registry, const Recipe& recipe);
  ~Rehearsal();

  // Makes so many more updates, however long the recipe's training is, and gives what each reported
  // on this rank. Their spans go to `timeline`, if there is one. Throws Failure when a loss is no
  // number. Collective.
  std::vector<StepReport> make_updates(std::int64_t count, Timeline* timeline = nullptr);

  // Gives so many more batches of the training's samples to the network as an evaluation does
  // (Strategy::infer), and looks at nothing of what comes out. Collective.
  void infer(std::int64_t count);

  Strategy& strategy();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::train
