#include "cli/plan/planned.h"

#include <algorithm>
#include <cmath>

namespace convoy::cli {

train::Recipe Planned::run(std::int64_t batch, double learning_rate, std::uint64_t seed,
                           std::int64_t every, std::int64_t longest) const {
  train::Recipe one = timed(batch);
  one.optimizer.lr = learning_rate;
  one.seed = static_cast<std::int64_t>(seed);
  one.evaluation.every_steps = every;
  one.training.steps = longest;
  one.training.target = {goal.of_task, goal.hardest()};
  return one;
}

train::Recipe Planned::timed(std::int64_t batch) const {
  constexpr double kStill = 1e-6;  // nothing is learnt, so nothing diverges
  train::Recipe one = recipe;
  one.optimizer.lr *= kStill;
  one.training.batch = batch;
  one.training.accumulate = std::min(one.training.accumulate, batch);
  // Evaluations need not come in batches as small.
  constexpr std::int64_t kEvaluated = 64;
  one.evaluation.batch = std::max(batch, kEvaluated);
  return one;
}

train::Recipe Planned::untrained(std::int64_t batch) const {
  train::Recipe one = timed(batch);
  one.training.steps = 1;
  one.evaluation.every_steps = 1;
  return one;
}

std::int64_t Planned::usual_interval(std::int64_t batch) const {
  // Forward alone takes about a third of forward and backward.
  const double samples = 2.0 / 3 * static_cast<double>(evaluated);
  return std::max<std::int64_t>(1, std::llround(samples / static_cast<double>(batch)));
}

// As fingerprint_of() has it.
bool is_left_out_of_fingerprints(const std::string& key) {
  return key == "name" || key == "seed" || key == "training.batch" || key == "optimizer.lr";
}

double mean_batch(std::int64_t samples, std::int64_t batch) {
  if (batch >= samples) return static_cast<double>(samples);
  const std::int64_t whole = samples / batch, rest = samples % batch;
  const double each = 1 / static_cast<double>(batch);
  if (rest == 0) return static_cast<double>(batch);
  const double sum = static_cast<double>(whole) * each + 1 / static_cast<double>(rest);
  return static_cast<double>(whole + 1) / sum;
}

std::int64_t updates_in(double epochs, std::int64_t samples, std::int64_t batch) {
  constexpr double kMost = 1e9;
  const double updates =
      std::ceil(epochs * static_cast<double>(samples) / static_cast<double>(batch));
  return std::llround(std::clamp(updates, 1.0, kMost));
}

}  // namespace convoy::cli
