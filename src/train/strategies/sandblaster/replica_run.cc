// What a Trainer does, for a replica of a batch optimization: without evaluations, checkpoints and
// a run folder.
#include <algorithm>
#include <optional>
#include <utility>

#include "convoy/train/memory.h"
#include "convoy/train/threads.h"
#include "train/run/inputs.h"
#include "train/same_everywhere.h"
#include "train/strategies/sandblaster/replica.h"

namespace convoy::train {
namespace {

class BatchReplicaRun final : public TrainerContext {
 public:
  BatchReplicaRun(const comm::World& world, const Registry& registry, const Recipe& recipe,
                  const BatchServiceFactory& connect, const BatchReplicaOptions& options)
      : world_(world), recipe_(recipe) {
    const int threads = set_threads(world_, static_cast<int>(recipe_.threads));
    // Who has started it may have taken this host for one with more cores.
    if (recipe_.threads == 0) set_threads(world_, std::min(threads, world_.cores()));
    keep_large_blocks({.processes = world_.local_size()});
    check_same_recipe(world_.communicator(), print_recipe(recipe_, false));
    inputs_.emplace(world_, registry, recipe_, [&] {
      auto replica = std::make_unique<BatchReplica>(connect, options);
      replica_ = replica.get();
      return replica;
    });
    inputs_->open(registry, "");
    source_ = open_training(*inputs_, replica_->least_share(*this));
    schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, recipe_.training,
                      static_cast<double>(source_->batches_per_epoch()));
    replica_->prepare(*this, nullptr);
  }

  BatchReplicaResult run() {
    replica_->run();
    return replica_->result();
  }

  const Recipe& recipe() const override { return recipe_; }
  const comm::World& world() const override { return world_; }
  const Task& task() const override { return *inputs_->task; }
  const Compute& compute() const override { return inputs_->compute; }
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    return {recipe_.optimizer, std::move(parameters)};
  }
  data::SampleSource& samples() override { return *source_; }
  const data::Dataset& training_data() const override { return *inputs_->data.training; }
  const Schedule& schedule() const override { return *schedule_; }
  const Moment& moment() const override { return moment_; }
  Timeline* timeline() override { return nullptr; }
  std::uint32_t requests() override { return 0; }
  bool updated(const StepReport&) override { return true; }
  void stopped() override {}

 private:
  const comm::World& world_;
  Recipe recipe_;
  std::optional<Inputs> inputs_;
  BatchReplica* replica_ = nullptr;
  std::unique_ptr<data::SampleSource> source_;
  std::optional<Schedule> schedule_;
  Moment moment_;
};

}  // namespace

BatchReplicaResult run_batch_replica(const comm::World& world, const Registry& registry,
                                     const Recipe& recipe, const BatchServiceFactory& connect,
                                     const BatchReplicaOptions& options) {
  return BatchReplicaRun(world, registry, recipe, connect, options).run();
}

}  // namespace convoy::train
