// The processes of a Downpour job that train and evaluate (docs/downpour.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/parameter_service.h"
#include "convoy/train/registry.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

// Gives the recipe that a job's coordinator has, with the plugins that it names.
Recipe recipe_of(const server::JobPlan& plan, Registry& registry);

struct ReplicaOptions {
  // Is asked between mini-batches: once it says true, the replica pushes what it has and leaves.
  std::function<bool()> should_stop;
  // File for a row of metrics of every few mini-batches; empty: none.
  std::string metrics;
};

struct ReplicaResult {
  std::uint64_t steps = 0;  // mini-batches
  std::uint64_t samples = 0;
  std::uint64_t pushes = 0;
  std::uint64_t fetches = 0;
  std::uint64_t joined = 0;   // how often: more than once where it was taken for dead
  std::uint64_t dropped = 0;  // pushes that were too stale
  bool stopped = false;       // told to, before the job was over
  std::string ended;          // why the job was over; empty where nothing was left to do
};

// Runs one replica, whose ranks are the world's: as many as grid.partitions. Trains what it is
// given until nothing is left to do, the job ends, or it is told to stop. Collective.
ReplicaResult run_replica(const comm::World& world, const Registry& registry, const Recipe& recipe,
                          const ParameterServiceFactory& connect,
                          const ReplicaOptions& options = {});

// Runs the evaluator: a Trainer that makes no update itself. It gives the servers what they begin
// with, evaluates and writes checkpoints when the recipe says so, and ends the job when it is done
// or has reached its target. Told to stop, it writes a checkpoint and leaves the job to another
// evaluator. As many ranks as grid.partitions. Collective.
RunResult run_evaluator(const comm::World& world, const Registry& registry, const Recipe& recipe,
                        const ParameterServiceFactory& connect, TrainerOptions options = {});

}  // namespace convoy::train
