// What a Trainer does, for a replica: without evaluations, checkpoints and a run folder.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/train/memory.h"
#include "convoy/train/metrics.h"
#include "convoy/train/threads.h"
#include "train/diverged.h"
#include "train/run/inputs.h"
#include "train/same_everywhere.h"
#include "train/strategies/downpour/replica.h"

namespace convoy::train {
namespace {

class ReplicaRun final : public TrainerContext {
 public:
  ReplicaRun(const comm::World& world, const Registry& registry, const Recipe& recipe,
             const ParameterServiceFactory& connect, const ReplicaOptions& options)
      : world_(world), recipe_(recipe), options_(options) {
    const int threads = set_threads(world_, static_cast<int>(recipe_.threads));
    // Who has started it may have taken this host for one with more cores: threads that wait for a
    // core in turns are many times as slow.
    if (recipe_.threads == 0) set_threads(world_, std::min(threads, world_.cores()));
    keep_large_blocks({.processes = world_.local_size()});
    check_same_recipe(world_.communicator(), print_recipe(recipe_, false));
    inputs_.emplace(world_, registry, recipe_, [&] {
      auto replica = std::make_unique<Replica>(connect);
      replica_ = replica.get();
      return replica;
    });
    inputs_->open(registry, "");
    source_ = open_training(*inputs_, replica_->least_share(*this));
    schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, recipe_.training,
                      static_cast<double>(source_->batches_per_epoch()));
    replica_->prepare(*this, nullptr);
    if (!options_.metrics.empty() && world_.rank() == 0) metrics_.emplace(options_.metrics, -1);
  }

  ReplicaResult run() {
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
  std::uint32_t requests() override {
    return options_.should_stop && options_.should_stop() ? kStop : 0u;
  }
  bool updated(const StepReport& report) override;
  void stopped() override {}

 private:
  const comm::World& world_;
  Recipe recipe_;
  ReplicaOptions options_;
  std::optional<Inputs> inputs_;
  Replica* replica_ = nullptr;
  std::unique_ptr<data::SampleSource> source_;
  std::optional<Schedule> schedule_;
  std::optional<MetricsFile> metrics_;
  Moment moment_;
};

bool ReplicaRun::updated(const StepReport& report) {
  ++moment_.step;
  const bool loss = !std::isfinite(report.loss);
  if (loss || !std::isfinite(report.gradient_norm)) {
    throw Failure(kDiverged + std::string("the ") + (loss ? "loss" : "norm of the gradient") +
                  " of this replica's mini-batch " + std::to_string(moment_.step) + " is " +
                  std::to_string(loss ? report.loss : report.gradient_norm) +
                  (report.not_finite.empty() ? "" : ", by that of '" + report.not_finite + "'") +
                  (report.fault ? "; " + report.fault->text : "") + ". " +
                  advice_of_divergence(report.fault && report.fault->of_data));
  }
  if (!metrics_ || moment_.step % recipe_.output.every_steps != 0) return true;
  const ReplicaResult so_far = replica_->result();
  metrics_->add({.kind = "replica",
                 .step = moment_.step,
                 .numbers = {{"loss", report.loss},
                             {"samples", static_cast<double>(report.samples)},
                             {"data_s", report.data_s},
                             {"forward_s", report.forward_s},
                             {"backward_s", report.backward_s},
                             {"exposed_communication_s", report.communication_s},
                             {"update_s", report.update_s},
                             {"pushes", static_cast<double>(so_far.pushes)},
                             {"fetches", static_cast<double>(so_far.fetches)},
                             {"dropped", static_cast<double>(so_far.dropped)},
                             {"skipped", static_cast<double>(report.skipped)}},
                 .strings = {}});
  return true;
}

}  // namespace

ReplicaResult run_replica(const comm::World& world, const Registry& registry, const Recipe& recipe,
                          const ParameterServiceFactory& connect, const ReplicaOptions& options) {
  return ReplicaRun(world, registry, recipe, connect, options).run();
}

}  // namespace convoy::train
