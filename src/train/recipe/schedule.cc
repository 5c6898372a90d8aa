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
      warmup_end_(recipe.warmup),
      update_(1 / (length_epochs_ ? length_ * steps_per_epoch : length_)) {
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
  if (recipe_.name == "polynomial")
    return lr_ * (recipe_.end + (1 - recipe_.end) * std::pow(1 - part, recipe_.power));
  if (recipe_.name == "one_cycle") return one_cycle(part);
  return lr_;
}

// As PyTorch's OneCycleLR: the largest rate is that of an update, and so is the last one, behind
// which a part of the length of one is left.
double Schedule::one_cycle(double part) const {
  const double first = lr_ / recipe_.div_factor, last = first / recipe_.final_div_factor;
  const double top = recipe_.pct_start - update_, end = 1 - update_;
  const auto between = [](double from, double to, double way) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * std::clamp(way, 0.0, 1.0))) / 2;
  };
  if (part < top) return between(first, lr_, part / top);
  return end > top ? between(lr_, last, (part - top) / (end - top)) : lr_;
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
