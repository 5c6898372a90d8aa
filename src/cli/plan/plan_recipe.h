// What of a recipe a plan's measurements depend on. Without LibTorch.
#pragma once

#include <string>

#include "convoy/train/recipe.h"

namespace convoy::cli {

// The recipe as a plan's trainings have it: a learning rate that is constant, as many threads for
// each rank as it says (one where it leaves that to the machine), no end, and nothing written that
// a plan has no use for.
void make_plain(train::Recipe& recipe);

// What the answers of a plan hold for, as text: all that makes another training of it. The batch
// and the rate, which the plan chooses, the schedule, what is evaluated and saved, threads, and how
// data is kept and read ahead, are left out.
std::string compared_part(train::Recipe recipe);

// Keys that differ, as "optimizer.name is "sgd", in the plan it is "adam""; or empty.
struct PlanDifference {
  std::string training;  // they make another training of it
  std::string places;    // of data and plugins, which may be the same at another place
};
// Compares two texts of compared_part().
PlanDifference difference_from_plan(const std::string& mine, const std::string& of_plan);

}  // namespace convoy::cli
