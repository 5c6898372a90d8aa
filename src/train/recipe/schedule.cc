#include "convoy/train/schedule.h"

#include <cmath>
#include <numbers>

namespace convoy::train {

Schedule::Schedule(const ScheduleRecipe& recipe, double lr, double steps_per_epoch, double steps)
    : recipe_(recipe),
      lr_(lr),
      unit_(recipe.unit == "epochs" ? steps_per_epoch : 1),
      steps_(steps) {}

double Schedule::base(double step) const {
  if (recipe_.name == "step") {
    double rate = lr_;
    // A milestone that falls on a step begins with it, whatever the rounding of unit_.
    constexpr double kSlack = 1e-6;
    for (const double milestone : recipe_.milestones) {
      if (step + kSlack >= milestone * unit_) rate *= recipe_.gamma;
    }
    return rate;
  }
  if (recipe_.name == "cosine") {
    const double begin = recipe_.warmup * unit_;
    const double length = std::max(steps_ - begin, 1.0);
    const double part = std::min(std::max(step - begin, 0.0) / length, 1.0);
    const double cosine = (1 + std::cos(std::numbers::pi * part)) / 2;
    return lr_ * (recipe_.end + (1 - recipe_.end) * cosine);
  }
  return lr_;
}

double Schedule::at(std::int64_t step) const {
  const auto now = static_cast<double>(step);
  const double warmup = recipe_.warmup * unit_;
  if (now >= warmup) return base(now);
  const double target = base(warmup);
  const double part = now / warmup;
  return target * (recipe_.warmup_from + (1 - recipe_.warmup_from) * part);
}

}  // namespace convoy::train
