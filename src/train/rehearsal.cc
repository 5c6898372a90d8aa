#include "convoy/train/rehearsal.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/train/memory.h"
#include "convoy/train/named_optimizer.h"
#include "convoy/train/threads.h"
#include "train/diverged.h"
#include "train/due.h"
#include "train/evaluation_mode.h"
#include "train/run/inputs.h"
#include "train/run/place.h"
#include "train/same_everywhere.h"

namespace convoy::train {

class Rehearsal::Impl final : public TrainerContext {
 public:
  Impl(const comm::World& world, const Registry& registry, const Recipe& recipe)
      : world_(world), recipe_(recipe), optimizer_(registry.optimizer(recipe.optimizer.name)) {
    set_threads(world_, static_cast<int>(recipe_.threads));
    keep_large_blocks({.processes = world_.local_size()});
    check_same_recipe(world_.communicator(), print_recipe(recipe_, false));
    recipe_ = placed(world_, registry, recipe_, "");
    inputs_.emplace(world_, registry, recipe_);
    inputs_->arrangement.owner = -1;
    inputs_->open(registry, "");
    source_ = open_training(*inputs_, strategy().least_share(*this));
    moment_ = moment_of(*source_, recipe_, 0);
    schedule_.emplace(recipe_.schedule, recipe_.optimizer.lr, recipe_.training,
                      static_cast<double>(source_->batches_per_epoch()));
    strategy().prepare(*this, nullptr);
  }

  std::vector<StepReport> make_updates(std::int64_t count, Timeline* timeline) {
    reports_.clear();
    left_ = count;
    timeline_ = timeline;
    if (count > 0) strategy().run();
    timeline_ = nullptr;
    return std::exchange(reports_, {});
  }

  void infer(std::int64_t count) {
    const EvaluationMode mode(strategy().module());
    const torch::NoGradGuard no_grad;
    while (count > 0) {
      const data::Batch* batch = source_->next();
      if (batch == nullptr) continue;  // the next epoch begins
      strategy().infer(task(), inputs_->compute, *batch, [](const auto&, const auto&) {});
      --count;
    }
  }

  Strategy& strategy() { return *inputs_->strategy; }

  const Recipe& recipe() const override { return recipe_; }
  const comm::World& world() const override { return world_; }
  const Task& task() const override { return *inputs_->task; }
  const Compute& compute() const override { return inputs_->compute; }
  NamedOptimizer make_optimizer(std::vector<parallel::NamedTensor> parameters) const override {
    return {recipe_.optimizer, std::move(parameters), optimizer_};
  }
  data::SampleSource& samples() override { return *source_; }
  const data::Dataset& training_data() const override { return *inputs_->data.training; }
  const Schedule& schedule() const override { return *schedule_; }
  const Moment& moment() const override { return moment_; }
  Timeline* timeline() override { return timeline_; }
  std::uint32_t requests() override { return 0; }
  bool updated(const StepReport& report) override {
    moment_ = moment_of(*source_, recipe_, moment_.step + 1);
    const bool loss = !std::isfinite(report.loss);
    if (loss || !std::isfinite(report.gradient_norm)) {
      const double value = loss ? report.loss : report.gradient_norm;
      throw Failure(kDiverged + std::string(loss ? "the loss" : "the norm of the gradient") +
                    " of step " + std::to_string(moment_.step) + " is " + std::to_string(value) +
                    (report.fault ? "; " + report.fault->text : "") + ". " +
                    advice_of_divergence(report.fault && report.fault->of_data));
    }
    reports_.push_back(report);
    return --left_ > 0;
  }
  void stopped() override {}

 private:
  const comm::World& world_;
  Recipe recipe_;
  OptimizerFactory optimizer_;  // a plugin's
  std::optional<Inputs> inputs_;
  std::unique_ptr<data::SampleSource> source_;
  std::optional<Schedule> schedule_;
  Moment moment_;
  Timeline* timeline_ = nullptr;
  std::int64_t left_ = 0;
  std::vector<StepReport> reports_;
};

Rehearsal::Rehearsal(const comm::World& world, const Registry& registry, const Recipe& recipe)
    : impl_(std::make_unique<Impl>(world, registry, recipe)) {}
Rehearsal::~Rehearsal() = default;
std::vector<StepReport> Rehearsal::make_updates(std::int64_t count, Timeline* timeline) {
  return impl_->make_updates(count, timeline);
}
void Rehearsal::infer(std::int64_t count) { impl_->infer(count); }
Strategy& Rehearsal::strategy() { return impl_->strategy(); }

}  // namespace convoy::train
