// The learning rate over time. Torch-free.
#pragma once

#include "convoy/train/moment.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// Gives the schedules that Convoy brings.
const Kinds<ScheduleKind>& built_in_schedules();

// Gives the recipe with its schedule's kind and all of its keys: those that it lacks have their
// defaults. Of a name that nobody knows it stays as it is. Throws std::logic_error for a key that
// the schedule doesn't have.
ScheduleRecipe with_defaults(ScheduleRecipe recipe);

// This is a pure function of the moment, so that a resumed run needs no state for it. What the
// recipe counts in epochs goes by the position in the data: another batch leaves it where it is.
class Schedule {
 public:
  // `training` says how long the whole is. `steps_per_epoch` (> 0) is needed where the recipe
  // counts the one in epochs and the other in steps, and by one_cycle in epochs. Throws
  // std::logic_error for a plugin's schedule in a recipe that was not read.
  Schedule(const ScheduleRecipe& recipe, double lr, const TrainingRecipe& training,
           double steps_per_epoch);

  // Gives the rate of the update that follows this moment. Warm-up: linear from warmup_from x rate
  // to the rate that the schedule has at its end (Goyal et al. 2017). Without warm-up, polynomial
  // and one_cycle have the rates of PyTorch's PolynomialLR and OneCycleLR.
  double at(const Moment& now) const;

 private:
  double after_warmup(double time, double part) const;

  ScheduleRecipe recipe_;  // with its kind
  double lr_;
  bool in_epochs_;      // the recipe's unit; otherwise steps
  bool length_epochs_;  // the unit of length_
  double length_;       // of the training
  double warmup_end_;   // in the same unit
  double update_;       // how long one is, as a part of the training
};

}  // namespace convoy::train
