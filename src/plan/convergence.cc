#include "convoy/plan/convergence.h"

#include <algorithm>
#include <cmath>

#include "plan/checks.h"

namespace convoy::plan {
namespace {

// What equations 8 to 10 are made of. Times are those of this worker's share of a processor, with
// what workers lose to each other; delta has all that samples don't change.
struct Terms {
  double n_inf, alpha, gamma, knee, delta, workers;
};

Terms terms_of(const UpdateLaw& law, const Machine& machine, std::int64_t workers) {
  check_workers(workers);
  validate(machine);
  if (!machine.table.empty()) {
    throw UsageError(
        "the machine has a table of measured times; the equations for the best batch need "
        "seconds_per_sample and knee_samples alone (best_batch() takes tables)");
  }
  check_not_negative("alpha", law.noise_sensitivity);
  if (!(law.updates_at_infinity > 0) || !std::isfinite(law.updates_at_infinity)) {
    refuse("N_inf", shortest(law.updates_at_infinity),
           "above 0: without it, larger is always better");
  }
  // Everything that is computed takes so many times as long as with one worker alone.
  const double longer = 1 + contention_part(machine, workers);
  return {law.updates_at_infinity,
          law.noise_sensitivity,
          longer * machine.seconds_per_sample / machine.processor_share,
          machine.knee_samples,
          communication_seconds(machine.communication, workers) +
              longer * machine.overhead_s / machine.processor_share,
          static_cast<double>(workers)};
}

// Whether equation 2 has updates left at this batch.
bool has_updates(const UpdateLaw& law, std::int64_t batch) {
  return law.updates_at_infinity + law.noise_sensitivity / static_cast<double>(batch) > 0;
}

// The largest batch up to `largest` that the machine's table and the law reach.
std::int64_t end_of_search(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                           std::int64_t largest) {
  std::int64_t end = largest;
  const std::int64_t most = most_samples(machine);
  if (most < largest / workers + (largest % workers != 0 ? 1 : 0)) end = most * workers;
  if (law.updates_at_infinity >= 0) return end;
  // Where a falling law comes down to 0, it says nothing any more.
  const double zero = law.noise_sensitivity / -law.updates_at_infinity;
  if (zero < static_cast<double>(end)) end = static_cast<std::int64_t>(zero);
  while (end > workers && !has_updates(law, end)) --end;
  return std::max(end, workers);
}

bool first_branch(const Terms& t) {
  return t.workers < t.alpha * t.delta / (t.gamma * t.knee * t.knee * t.n_inf);
}

}  // namespace

double convergence_seconds(const UpdateLaw& law, const Machine& machine, std::int64_t batch,
                           std::int64_t workers) {
  const double each = seconds_per_update(machine, batch, workers);
  return updates_to_target(law, static_cast<double>(batch)) * each;
}

double ideal_convergence_seconds(const UpdateLaw& law, const Machine& machine, double batch,
                                 std::int64_t workers) {
  check_workers(workers);
  check_batch(batch, static_cast<double>(workers));
  const double each = compute_seconds(machine, batch / static_cast<double>(workers), workers) +
                      communication_seconds(machine.communication, workers);
  return updates_to_target(law, batch) * each;
}

double optimal_batch(const UpdateLaw& law, const Machine& machine, std::int64_t workers) {
  const Terms t = terms_of(law, machine, workers);
  return std::max({std::sqrt(t.alpha * t.delta * t.workers / (t.n_inf * t.gamma)),
                   t.knee * t.workers, t.workers});
}

bool communication_decides(const UpdateLaw& law, const Machine& machine, std::int64_t workers) {
  return first_branch(terms_of(law, machine, workers));
}

double optimal_seconds(const UpdateLaw& law, const Machine& machine, std::int64_t workers) {
  const Terms t = terms_of(law, machine, workers);
  const double batch = optimal_batch(law, machine, workers);
  if (first_branch(t) && batch > t.workers) {
    const double root = std::sqrt(t.delta * t.n_inf) + std::sqrt(t.alpha * t.gamma / t.workers);
    return root * root;
  }
  const double samples = batch / t.workers;
  return (t.n_inf + t.alpha / batch) * (t.delta + t.gamma * std::max(t.knee, samples));
}

BatchTime best_batch(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                     std::int64_t largest) {
  check_workers(workers);
  check_batch(static_cast<double>(largest), static_cast<double>(workers));
  validate(machine);
  const std::int64_t end = end_of_search(law, machine, workers, largest);
  const auto time = [&](std::int64_t batch) {
    return convergence_seconds(law, machine, batch, workers);
  };
  BatchTime best{workers, time(workers)};
  const auto consider = [&](std::int64_t batch) {
    if (batch < workers || batch > end) return;
    const double seconds = time(batch);
    if (seconds < best.seconds || (seconds == best.seconds && batch < best.batch)) {
      best = {batch, seconds};
    }
  };
  consider(end);
  consider(end / workers * workers);
  if (machine.table.empty()) {
    // Up to M_T samples per worker larger is better; above, the time falls and then rises.
    const double p = static_cast<double>(workers);
    std::vector<double> centers = {machine.knee_samples * p};
    if (law.updates_at_infinity > 0) centers.push_back(optimal_batch(law, machine, workers));
    for (const double center : centers) {
      const auto near = static_cast<std::int64_t>(std::min(center / p, 0x1p53 / p));
      for (std::int64_t m = std::max<std::int64_t>(1, near - 1); m <= near + 2; ++m) {
        if (m <= end / workers) consider(m * workers);
      }
    }
    return best;
  }
  // Between two points of a table the time need not be unimodal over the table as a whole, but it
  // is between each two of them.
  std::int64_t before = 1;
  std::vector<std::int64_t> ends;
  for (const ComputePoint& point : machine.table) ends.push_back(point.samples);
  ends.push_back(std::max(ends.back(), end / workers));
  for (const std::int64_t to : ends) {
    if (before > end / workers) break;
    std::int64_t low = before;
    std::int64_t high = std::min(to, end / workers);
    consider(low * workers);
    consider(high * workers);
    while (high - low > 2) {
      const std::int64_t a = low + (high - low) / 3;
      const std::int64_t b = high - (high - low) / 3;
      if (time(a * workers) <= time(b * workers)) {
        high = b;
      } else {
        low = a;
      }
    }
    for (std::int64_t m = low; m <= high; ++m) consider(m * workers);
    before = to;
  }
  return best;
}

std::vector<Scaling> scaling(const UpdateLaw& law, const Machine& machine,
                             const std::vector<std::int64_t>& workers, std::int64_t largest) {
  std::vector<Scaling> rows;
  const std::int64_t alone = best_batch(law, machine, 1, largest).batch;
  for (const std::int64_t p : workers) {
    Scaling row;
    row.workers = p;
    row.optimal = best_batch(law, machine, p, largest);
    if (alone >= p) row.strong = {alone, convergence_seconds(law, machine, alone, p)};
    if (alone <= largest / p && has_updates(law, alone * p)) {
      row.weak = {alone * p, convergence_seconds(law, machine, alone * p, p)};
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace convoy::plan
