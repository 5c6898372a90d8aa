// The learning rate over time. Torch-free.
#pragma once

#include <cstdint>

#include "convoy/train/recipe.h"

namespace convoy::train {

// A pure function of the step, so that a resumed run needs no state for it.
class Schedule {
 public:
  // `steps_per_epoch` and `steps` (of the whole training) may be fractions of what they count when
  // batches are not full; both > 0.
  Schedule(const ScheduleRecipe& recipe, double lr, double steps_per_epoch, double steps);

  // The rate of the update that follows `step` updates. Warm-up: linear in the step from
  // warmup_from x rate to the rate that the schedule has at its end (Goyal et al. 2017).
  double at(std::int64_t step) const;

 private:
  double base(double step) const;

  ScheduleRecipe recipe_;
  double lr_;
  double unit_;  // steps per unit of milestones and warm-up
  double steps_;
};

}  // namespace convoy::train
