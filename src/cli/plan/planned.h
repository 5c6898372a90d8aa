// What a plan is about: a recipe as its runs train it, a goal, and the data's size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/goal.h"
#include "convoy/plan/points.h"
#include "convoy/train/recipe.h"

namespace convoy::cli {

struct RecipeWords {
  std::string path;
  std::vector<std::string> overrides;  // --set
};

struct Planned {
  // The user's, as make_plain() leaves it.
  train::Recipe recipe;
  Goal goal;
  std::int64_t samples = 0;       // of training, in what training.batch counts
  std::int64_t evaluated = 0;     // of an evaluation, in the same
  bool counts_samples = true;     // training.batch does, not what they cost
  double epochs = 0;              // that the user's recipe trains
  std::vector<std::string> gpus;  // that trainings can be on (gpu_names); none: on cores
  std::string fingerprint;        // of all that makes runs comparable

  // The recipe of a run towards the hardest level: at most `longest` updates, evaluated every so
  // many.
  train::Recipe run(std::int64_t batch, double learning_rate, std::uint64_t seed,
                    std::int64_t every, std::int64_t longest) const;
  // The recipe of updates that are timed: without evaluations, and without an end.
  train::Recipe timed(std::int64_t batch) const;
  // The recipe of an evaluation of the network as it is before training.
  train::Recipe untrained(std::int64_t batch) const;
  // Updates between evaluations, so that these take about half as long as what they interrupt.
  std::int64_t usual_interval(std::int64_t batch) const;
};

// The updates of so many passes over the data: at least 1, and no more than any training makes.
std::int64_t updates_in(double epochs, std::int64_t samples, std::int64_t batch);

// The batch whose updates are worth what those of an epoch of `samples` are on average (equation 2
// has 1/M): less than `batch` where the last one of the epoch is smaller.
double mean_batch(std::int64_t samples, std::int64_t batch);

// Reads the recipe and opens its data. A fixed random fifth of a data set is evaluated, unless the
// recipe says what evaluation.fraction is. Throws UsageError for what is wrong with any of these.
Planned open_planned(const RecipeWords& recipe, const GoalWords& goal);

// Opens a plan that has been measured, whose goal is in its points.
Planned open_planned(const RecipeWords& recipe, const plan::PlanHeader& header);

// Says whether recipes that differ in this key alone have the same Planned::fingerprint.
bool is_left_out_of_fingerprints(const std::string& key);

// Bytes of the gradients of a recipe's network, as they travel in an update; nothing where the
// network is code.
std::optional<double> gradient_bytes_of(const RecipeWords& words);

}  // namespace convoy::cli
