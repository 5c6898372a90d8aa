// The loop of strategies whose ranks make every update together.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/train/strategy.h"
#include "train/strategies/tally.h"

namespace convoy::train {

// What a rank spends an update on. One thread.
class Phases {
 public:
  // Where spans go from now on; null: nowhere.
  void set_timeline(Timeline* timeline) { timeline_ = timeline; }
  Timeline* timeline() const { return timeline_; }
  // The seconds of a phase that ends now.
  double end_of(const char* phase, Clock::time_point start) const;

 private:
  Timeline* timeline_ = nullptr;
};

// Makes updates until the trainer says no, or all ranks together have been told to stop. `follow`
// is called where spans go elsewhere than before. `ahead`: the device has the images of a batch
// brought ahead of need; not for steps that don't use them from there. Collective.
void make_updates(TrainerContext& context, Tally& tally, Phases& phases,
                  const std::function<void(Timeline*)>& follow,
                  const std::function<StepReport(const data::Batch&)>& step, bool ahead = true);

// Gives the parameters without their names.
std::vector<at::Tensor> tensors_of(const std::vector<parallel::NamedTensor>& parameters);

// Gives their names.
std::vector<std::string> names_of(const std::vector<parallel::NamedTensor>& parameters);

// Whether loss and norm of the gradient are finite.
bool has_finite_numbers(const StepReport& report);

// Whether an update may be made with gradients of this norm, which `report` then has. Where it is
// not finite it also has which of these parameters that comes from, if it has none yet. An update
// with such gradients would leave nothing of the weights. Nor may it where the loss in the report
// is not finite, or while the step is only looked at (FaultWatch).
bool may_update(StepReport& report, double norm,
                const std::vector<parallel::NamedTensor>& parameters);

// For what draws from LibTorch's generator, as torch::nn::Dropout does (model::Dropout does not):
// fixed by (seed, step, rank), so that nothing of it has to be saved.
void seed_generator(const TrainerContext& context);

}  // namespace convoy::train
