// The processes of a Sandblaster job that train and evaluate (docs/sandblaster.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/batch_service.h"
#include "convoy/train/registry.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

struct BatchReplicaOptions {
  // Is asked between portions: once it says true, the replica leaves, and others get what it had.
  std::function<bool()> should_stop;
};

struct BatchReplicaResult {
  std::uint64_t portions = 0;     // computed
  std::uint64_t copies = 0;       // of these, while another replica had them
  std::uint64_t unused = 0;       // of these, those that another replica was the first to have done
  std::uint64_t evaluations = 0;  // that it took part in
  std::uint64_t joined = 0;       // how often: more than once where it was taken for dead
  bool stopped = false;           // told to, before the job was over
  std::string ended;              // why the job was over
};

// Runs one replica, whose ranks are the world's: as many as grid.partitions. Computes losses and
// gradients of the portions that it is given until the job ends, or it is told to stop. Throws
// UsageError for a network that is another function each time: one with batch normalization, or
// with other buffers that a training pass changes. Collective.
BatchReplicaResult run_batch_replica(const comm::World& world, const Registry& registry,
                                     const Recipe& recipe, const BatchServiceFactory& connect,
                                     const BatchReplicaOptions& options = {});

// Runs the evaluator: a Trainer that computes no gradients itself. It gives the servers the first
// weights, evaluates and writes checkpoints when the recipe says so, and ends the job when its
// method is over. Told to stop, it writes a checkpoint and leaves the job to another evaluator. As
// many ranks as grid.partitions. Collective.
RunResult run_batch_evaluator(const comm::World& world, const Registry& registry,
                              const Recipe& recipe, const BatchServiceFactory& connect,
                              TrainerOptions options = {});

}  // namespace convoy::train
