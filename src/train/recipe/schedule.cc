#include "convoy/train/schedule.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

// One line for each.
Kinds<ScheduleKind> make_built_in_schedules() {
  Kinds<ScheduleKind> kinds;
  add_constant(kinds);
  add_step(kinds);
  add_cosine(kinds);
  add_polynomial(kinds);
  add_one_cycle(kinds);
  return kinds;
}

}  // namespace

const Kinds<ScheduleKind>& built_in_schedules() {
  static const Kinds<ScheduleKind> kinds = make_built_in_schedules();
  return kinds;
}

ScheduleRecipe with_defaults(ScheduleRecipe recipe) {
  return completed(built_in_schedules(), std::move(recipe));
}

Schedule::Schedule(const ScheduleRecipe& recipe, double lr, const TrainingRecipe& training,
                   double steps_per_epoch)
    : recipe_(with_defaults(recipe)),
      lr_(lr),
      in_epochs_(recipe.unit == "epochs"),
      length_epochs_(training.steps == 0),
      length_(static_cast<double>(length_epochs_ ? training.epochs : training.steps)),
      warmup_end_(recipe.warmup),
      update_(1 / (length_epochs_ ? length_ * steps_per_epoch : length_)) {
  if (recipe_.kind == nullptr)
    throw std::logic_error("there is no schedule '" + recipe_.name + "' that Convoy brings");
  if (in_epochs_ && !length_epochs_) warmup_end_ *= steps_per_epoch;
  if (!in_epochs_ && length_epochs_) warmup_end_ /= steps_per_epoch;
}

// `time` is in the recipe's unit, `part` that of the training behind its warm-up.
double Schedule::after_warmup(double time, double part) const {
  return recipe_.kind->rate({lr_, recipe_.options, time, part, update_});
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
