#include "convoy/plan/choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "plan/checks.h"
#include "plan/robust.h"

namespace convoy::plan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kNearlyBest = 1.05;

void take(const ComputeDraw& drawn, Machine& machine) {
  machine.seconds_per_sample = drawn.seconds_per_sample;
  machine.knee_samples = drawn.knee_samples;
  machine.overhead_s = drawn.overhead_s;
}

}  // namespace

Machine machine_of_draw(const MeasuredMachine& measured, std::size_t draw) {
  Machine machine = measured.machine;
  if (!measured.compute_draws.empty()) {
    const Machine fitted = of_equation_4(machine);
    take(measured.compute_draws[draw % measured.compute_draws.size()], machine);
    const Machine drawn_fit = of_equation_4(machine);
    // A table is as uncertain as what was fitted through it.
    for (ComputePoint& point : machine.table) {
      const double samples = static_cast<double>(point.samples);
      point.seconds *= compute_seconds(drawn_fit, samples) / compute_seconds(fitted, samples);
    }
  }
  if (!measured.delta_draws.empty()) {
    machine.communication.delta_s = measured.delta_draws[draw % measured.delta_draws.size()];
  }
  for (std::size_t i = 0; i < measured.contention_draws.size(); ++i) {
    const std::vector<double>& draws = measured.contention_draws[i];
    machine.contention.at(i).part = draws[draw % draws.size()];
  }
  return machine;
}

namespace {

// The same with the hinge in the place of a table, for equations 9 and 10.
Machine drawn_hinge(const MeasuredMachine& measured, const ComputeFit& compute, std::size_t draw) {
  Machine machine = machine_of_draw(measured, draw);
  if (machine.table.empty()) return machine;
  machine.table.clear();
  take({compute.seconds_per_sample.value, compute.knee_samples.value, compute.overhead_s.value},
       machine);
  if (!compute.draws.empty()) take(compute.draws[draw % compute.draws.size()], machine);
  return machine;
}

double optimum_of(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                  std::int64_t largest) {
  // Without N_inf, whatever communication costs is worth a larger batch, and without such costs
  // the smallest batch that keeps a worker busy is as good as any.
  const bool has_floor = law.updates_at_infinity > 0;
  const double fixed = communication_seconds(machine.communication, workers) + machine.overhead_s;
  if (!has_floor && fixed > 0) return kInfinite;
  if (!machine.table.empty()) {
    const UpdateLaw from_zero{std::max(law.updates_at_infinity, 0.0), law.noise_sensitivity};
    return static_cast<double>(best_batch(from_zero, machine, workers, largest).batch);
  }
  if (has_floor) return optimal_batch(law, machine, workers);
  return std::max(machine.knee_samples, 1.0) * static_cast<double>(workers);
}

// As convergence_seconds(), also for laws that some draw has brought below 0 here.
double seconds_of(const UpdateLaw& law, double each, std::int64_t batch) {
  return std::max(law.updates_at_infinity + law.noise_sensitivity / static_cast<double>(batch),
                  0.0) *
         each;
}

// Nothing where no batch was measured that runs reached the target with.
struct MeasuredBatches {
  std::int64_t smallest = 0, largest = 0;
};

MeasuredBatches measured_batches(const UpdateFit& fit) {
  MeasuredBatches batches;
  for (const EnvelopePoint& point : fit.envelope) {
    if (point.reached == 0) continue;
    if (batches.smallest == 0) batches.smallest = point.batch;
    batches.largest = point.batch;
  }
  return batches;
}

// On either side the law is all that is known. A rate that is right for a larger batch is too large
// for a smaller one sooner than the other way round.
void warn_beyond_what_was_measured(const UpdateFit& fit, BatchChoice& choice) {
  const auto [smallest, largest] = measured_batches(fit);
  const std::string batch = "the batch " + std::to_string(choice.batch);
  if (choice.batch > largest) {
    choice.warnings.push_back(
        batch + " is beyond the largest measured one, " + std::to_string(largest) +
        ": its updates are those of the law, its learning rate is that of the largest; measure it");
  } else if (choice.batch < smallest) {
    choice.warnings.push_back(batch + " is below the smallest measured one, " +
                              std::to_string(smallest) +
                              ": its updates are those of the law, its learning rate is that of "
                              "the smallest, which may be too large for it; measure it");
  }
}

// No more than a worker's memory holds.
std::int64_t with_memory(const Machine& machine, std::int64_t workers, std::int64_t largest) {
  const std::int64_t each = machine.memory_samples;
  return each > 0 && each < largest / workers ? each * workers : largest;
}

void warn_of_memory(const Machine& machine, std::int64_t largest, BatchChoice& choice) {
  const std::int64_t each = machine.memory_samples;
  if (each == 0 || each >= largest / choice.workers) return;
  const std::int64_t most = each * choice.workers;
  if (choice.batch < most || choice.optimum.value < static_cast<double>(most)) return;
  choice.warnings.push_back("the memory of a worker holds " + std::to_string(each) +
                            " samples; with more, larger batches would be sooner");
}

const EnvelopePoint& recommended(const UpdateFit& fit, std::int64_t workers, std::int64_t largest) {
  const EnvelopePoint* best = nullptr;
  for (const EnvelopePoint& point : fit.envelope) {
    if (point.reached > 0 && point.batch >= workers && point.batch <= largest) best = &point;
  }
  if (best == nullptr) {
    throw UsageError("the law of updates is not trusted, and no batch from " +
                     std::to_string(workers) + " (a sample per worker) to " +
                     std::to_string(largest) + " was measured; measure some");
  }
  return *best;
}

// The last multiple of P from `from` on towards `to` that is nearly as good as the best.
std::int64_t edge(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                  std::int64_t from, std::int64_t to, double most) {
  const auto good = [&](std::int64_t m) {
    return convergence_seconds(law, machine, m * workers, workers) <= most;
  };
  std::int64_t inside = from, outside = to;
  if (good(outside)) return outside * workers;
  while (std::abs(outside - inside) > 1) {
    const std::int64_t middle = inside + (outside - inside) / 2;
    (good(middle) ? inside : outside) = middle;
  }
  return inside * workers;
}

void add_trusted(BatchChoice& choice, const UpdateLaw& law, const Machine& machine,
                 std::int64_t largest) {
  const std::int64_t p = choice.workers;
  const BatchTime best = best_batch(law, machine, p, largest);
  choice.batch = best.batch;
  const std::int64_t end = std::min(largest / p, most_samples(machine));
  const std::int64_t m = std::clamp<std::int64_t>(best.batch / p, 1, end);
  const double most = kNearlyBest * best.seconds;
  choice.low_batch = choice.high_batch = best.batch;
  if (convergence_seconds(law, machine, m * p, p) <= most) {
    choice.low_batch = edge(law, machine, p, m, 1, most);
    choice.high_batch = std::max(best.batch, edge(law, machine, p, m, end, most));
  }
  const Scaling row = scaling(law, machine, {p}, largest).front();
  choice.strong = row.strong;
  choice.weak = row.weak;
}

// With times on one side of the knee alone, that may be anywhere on the other.
void widen_by_what_was_not_timed(const MeasuredMachine& measured, BatchChoice& choice) {
  const double p = static_cast<double>(choice.workers);
  const double timed = std::max(measured.machine.knee_samples, 1.0) * p;
  const std::string samples = shortest(std::round(measured.machine.knee_samples));
  Interval& interval = choice.optimum.interval;
  if (measured.knee_is_least) {
    interval.high = kInfinite;
    const auto most = static_cast<std::int64_t>(std::min(timed, 0x1p53));
    choice.high_batch = std::clamp(choice.high_batch, choice.batch, std::max(choice.batch, most));
    choice.warnings.push_back("up to " + samples +
                              " samples, the most that were timed, an update of one worker takes "
                              "no longer than with fewer: larger batches may be sooner; time them");
  }
  constexpr double kRounding = 1 + 1e-9;
  if (measured.knee_is_most && interval.low <= kRounding * timed) {
    interval.low = std::min(interval.low, p);
    choice.warnings.push_back("from " + samples +
                              " samples on, the fewest that were timed, the time of an update of "
                              "one worker grows with them: smaller batches may be sooner; time "
                              "them");
  }
}

// Variances of a linearized model: of a vector by its gradient, less what one more row would take.
struct Information {
  double a00 = 0, a01 = 0, a11 = 0;

  void add(double weight, double d0, double d1) {
    a00 += weight * d0 * d0, a01 += weight * d0 * d1, a11 += weight * d1 * d1;
  }
  // g C h, C being the inverse.
  double form(double g0, double g1, double h0, double h1) const {
    const double determinant = std::max(a00 * a11 - a01 * a01, 1e-12 * a00 * a11);
    return (g0 * (a11 * h0 - a01 * h1) + g1 * (a00 * h1 - a01 * h0)) / determinant;
  }
};

// The variance of a robust mean of `count` values, in squared scatters.
double variance_of_mean(double scatter, double count) {
  return scatter * scatter / std::max(count, 0.5);
}

class Variances {
 public:
  Variances(const UpdateFit& updates, const ComputeFit& compute,
            const CommunicationFit* communication, const MeasuredMachine& machine,
            std::int64_t workers)
      : updates_(updates), compute_(compute), communication_(communication) {
    for (const EnvelopePoint& point : updates.envelope) {
      const auto [d0, d1] = slopes(point.batch);
      law_.add(point.reached / (point.scatter * point.scatter), d0, d1);
    }
    int first = 0;
    for (std::size_t i = 0; i < updates.draws.size(); ++i) {
      const UpdateLaw& law = updates.draws[i];
      const Machine drawn = drawn_hinge(machine, compute, i);
      if (communication_seconds(drawn.communication, workers) + drawn.overhead_s == 0) continue;
      first += law.updates_at_infinity <= 0 || communication_decides(law, drawn, workers);
    }
    const double delta = communication_seconds(machine.machine.communication, workers);
    const double own = machine.machine.overhead_s / machine.machine.processor_share *
                       (1 + contention_part(machine.machine, workers));
    if (own > 0) overhead_ = own / (own + delta);
    // Where there is no doubt about the branch there may be one after the next measurement.
    first_ = (first + 0.5) / (static_cast<double>(updates.draws.size()) + 1);
    const double n = updates.law.updates_at_infinity;
    const double alpha = updates.law.noise_sensitivity;
    if (n > 0) {
      gradient_ = {-0.5 / n, alpha > 0 ? 0.5 / alpha : 0};
    } else {
      gradient_ = {1 / updates.envelope.front().fitted, 0};
    }
  }

  double total() const {
    const double law = law_.form(gradient_[0], gradient_[1], gradient_[0], gradient_[1]);
    const double flat = variance_of_mean(compute_.scatter, compute_.flat_samples);
    const double rising = variance_of_mean(compute_.scatter, compute_.rising_samples);
    const double delta = 1 - overhead_;
    return first_ * (law + rising / 4 + delta * delta * communication(0) / 4 +
                     overhead_ * overhead_ * flat / 4) +
           (1 - first_) * (flat + rising);
  }

  // What one more measurement takes away.
  double gain(const Candidate& candidate) const {
    switch (candidate.kind) {
      case Candidate::Kind::updates:
        return first_ * gain_of_run(candidate.size);
      case Candidate::Kind::time:
        return gain_of_time(static_cast<double>(candidate.size));
      case Candidate::Kind::communication:
        return first_ * (1 - overhead_) * (1 - overhead_) * (communication(0) - communication(1)) /
               4;
    }
    return 0;
  }

 private:
  std::pair<double, double> slopes(std::int64_t batch) const {
    const UpdateLaw& law = updates_.law;
    const double x = 1 / static_cast<double>(batch);
    const double least = 1e-3 * law.noise_sensitivity * x + 1e-300;
    const double mean = std::max(law.updates_at_infinity + law.noise_sensitivity * x, least);
    return {1 / mean, x / mean};
  }

  double gain_of_run(std::int64_t batch) const {
    const auto [d0, d1] = slopes(batch);
    double reached = 1, scatter = updates_.scatter;
    for (const EnvelopePoint& point : updates_.envelope) {
      if (point.batch != batch) continue;
      // One that never reaches it would still say a little.
      reached = std::max<double>(point.reached, 0.1) / point.runs;
      scatter = point.scatter;
    }
    const double along = law_.form(gradient_[0], gradient_[1], d0, d1);
    const double noise = scatter * scatter / reached;
    return along * along / (noise + law_.form(d0, d1, d0, d1));
  }

  double gain_of_time(double samples) const {
    const bool flat = samples < compute_.knee_samples.value ||
                      samples * compute_.seconds_per_sample.value < compute_.overhead_s.value;
    const double count = flat ? compute_.flat_samples : compute_.rising_samples;
    const double less =
        variance_of_mean(compute_.scatter, count) - variance_of_mean(compute_.scatter, count + 1);
    return less * (1 - first_ + first_ / 4 * (flat ? overhead_ * overhead_ : 1));
  }

  double communication(double more) const {
    if (communication_ == nullptr) return 0;
    return variance_of_mean(communication_->scatter,
                            static_cast<double>(communication_->residuals.size()) + more);
  }

  const UpdateFit& updates_;
  const ComputeFit& compute_;
  const CommunicationFit* communication_;
  Information law_;   // of N_inf and alpha
  double first_ = 0;  // the part of the draws in the first branch of equation 9
  // Of what an update takes whatever its samples, what is no communication: both are under the
  // root.
  double overhead_ = 0;
  std::array<double, 2> gradient_{};
};

}  // namespace

BatchChoice choose_batch(const UpdateFit& updates, const MeasuredMachine& measured,
                         std::int64_t workers, std::int64_t largest) {
  const Machine& machine = measured.machine;
  check_workers(workers);
  check_batch(static_cast<double>(largest), static_cast<double>(workers));
  validate(machine);
  BatchChoice choice;
  choice.workers = workers;
  choice.warnings = updates.warnings;
  choice.optimum.value = optimum_of(updates.law, machine, workers, largest);
  if (updates.trusted) {
    add_trusted(choice, updates.law, machine, largest);
  } else {
    choice.batch = choice.low_batch = choice.high_batch =
        recommended(updates, workers, with_memory(machine, workers, largest)).batch;
  }
  std::vector<double> optima;
  for (std::size_t i = 0; i < updates.draws.size(); ++i)
    optima.push_back(optimum_of(updates.draws[i], machine_of_draw(measured, i), workers, largest));
  choice.optimum.interval = interval_of(optima);
  widen_by_what_was_not_timed(measured, choice);
  choice.seconds = predicted_seconds(updates, measured, choice.batch, workers).value();
  choice.learning_rate = learning_rate_for(updates.envelope, static_cast<double>(choice.batch));
  warn_beyond_what_was_measured(updates, choice);
  warn_of_memory(machine, largest, choice);
  return choice;
}

std::optional<double> predicted_updates(const UpdateFit& updates, double batch) {
  check_batch(batch, 1);
  if (updates.trusted) return updates_to_target(updates.law, batch);
  const EnvelopePoint* below = nullptr;
  const EnvelopePoint* above = nullptr;
  for (const EnvelopePoint& point : updates.envelope) {
    if (point.reached == 0) continue;
    if (static_cast<double>(point.batch) <= batch) below = &point;
    if (static_cast<double>(point.batch) >= batch && above == nullptr) above = &point;
  }
  if (below == nullptr || above == nullptr) return std::nullopt;
  if (below == above) return below->updates;
  const double part =
      std::log(batch / static_cast<double>(below->batch)) /
      std::log(static_cast<double>(above->batch) / static_cast<double>(below->batch));
  return below->updates * std::pow(above->updates / below->updates, part);
}

std::optional<Estimate> predicted_seconds(const UpdateFit& updates, const MeasuredMachine& measured,
                                          std::int64_t batch, std::int64_t workers) {
  const double each = seconds_per_update(measured.machine, batch, workers);
  const double size = static_cast<double>(batch);
  const std::optional<double> count = predicted_updates(updates, size);
  if (!count) return std::nullopt;
  // Where the law is not trusted, the updates are those that were measured, and the law says how
  // sure they are.
  const double by_law = updates.law.updates_at_infinity + updates.law.noise_sensitivity / size;
  const double over_law = updates.trusted || !(by_law > 0) ? 1 : *count / by_law;
  const double doubt = rate_doubt(updates.envelope, size);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < updates.draws.size(); ++i) {
    const double drawn = seconds_per_update(machine_of_draw(measured, i), batch, workers);
    RandomStream random(1, number_of("rates"), static_cast<std::uint64_t>(i));
    const double rate = doubt > 0 ? std::exp(doubt * normal_draw(random)) : 1;
    seconds.push_back(seconds_of(updates.draws[i], drawn * over_law * rate, batch));
  }
  return Estimate{*count * each, interval_of(seconds)};
}

std::vector<Suggestion> next_measurements(const UpdateFit& updates, const ComputeFit& compute,
                                          const CommunicationFit* communication,
                                          const MeasuredMachine& machine, std::int64_t workers,
                                          const std::vector<Candidate>& candidates) {
  check_workers(workers);
  const Variances variances(updates, compute, communication, machine, workers);
  const double total = variances.total();
  std::vector<Suggestion> suggestions;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    check_at_least("the size of a candidate", candidates[i].size, 1);
    check_positive("the cost of a candidate", candidates[i].cost_s);
    const double gain = variances.gain(candidates[i]);
    suggestions.push_back({i, total > 0 ? std::sqrt(std::max(1 - gain / total, 0.0)) : 1,
                           gain / candidates[i].cost_s});
  }
  std::sort(suggestions.begin(), suggestions.end(), [](const Suggestion& a, const Suggestion& b) {
    return std::pair(-a.gain_per_s, a.candidate) < std::pair(-b.gain_per_s, b.candidate);
  });
  return suggestions;
}

}  // namespace convoy::plan
