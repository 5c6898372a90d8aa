#include "convoy/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace convoy::train {

Schedule::Schedule(const ScheduleRecipe& recipe, double lr, const TrainingRecipe& training,
                   double steps_per_epoch)
    : recipe_(recipe),
      lr_(lr),
      in_epochs_(recipe.unit == "epochs"),
      length_epochs_(training.steps == 0),
      length_(static_cast<double>(length_epochs_ ? training.epochs : training.steps)),
      warmup_end_(recipe.warmup) {
  if (in_epochs_ && !length_epochs_) warmup_end_ *= steps_per_epoch;
  if (!in_epochs_ && length_epochs_) warmup_end_ /= steps_per_epoch;
}

// `time` is in the recipe's unit, `part` that of the training behind its warm-up.
double Schedule::after_warmup(double time, double part) const {
  if (recipe_.name == "step") {
    double rate = lr_;
    // A milestone that falls on an update begins with it, whatever the rounding of positions.
    constexpr double kSlack = 1e-9;
    for (const double milestone : recipe_.milestones) {
      if (time + kSlack >= milestone) rate *= recipe_.gamma;
    }
    return rate;
  }
  if (recipe_.name == "cosine") {
    const double cosine = (1 + std::cos(std::numbers::pi * part)) / 2;
    return lr_ * (recipe_.end + (1 - recipe_.end) * cosine);
  }
  return lr_;
}

double Schedule::at(const Moment& now) const {
  const double epochs = now.epochs();
  const auto steps = static_cast<double>(now.step);
  const double time = in_epochs_ ? epochs : steps;
  if (time < recipe_.warmup) {
    const double from = recipe_.warmup_from;
    return after_warmup(recipe_.warmup, 0) * (from + (1 - from) * time / recipe_.warmup);
  }
  const double behind = (length_epochs_ ? epochs : steps) - warmup_end_;
  const double whole = length_ - warmup_end_;
  return after_warmup(time, whole > 0 ? std::clamp(behind / whole, 0.0, 1.0) : 1.0);
}

}  // namespace convoy::train
