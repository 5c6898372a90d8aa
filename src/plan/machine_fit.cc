#include "convoy/plan/machine_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "plan/affine.h"
#include "plan/checks.h"
#include "plan/hinge.h"
#include "plan/location.h"
#include "plan/robust.h"

namespace convoy::plan {
namespace {

constexpr double kOutlier = 4;
constexpr double kUnlikely = 0.01;
// Below this number of residuals, they say less about how scatter is distributed than that it is
// nearly normal.
constexpr std::size_t kEnoughResiduals = 20;

// Measurements in groups of equal size, in ascending order.
struct Sorted {
  std::vector<std::size_t> order;  // places in what was given
  std::vector<std::int64_t> sizes;
  std::vector<std::size_t> ends;
  std::vector<double> logs;

  template <typename Sample, typename Size>
  Sorted(const std::vector<Sample>& samples, const char* what, std::int64_t least, Size size)
      : order(samples.size()) {
    for (const Sample& sample : samples) {
      check_at_least(what, size(sample), least);
      check_positive("a measured time", sample.seconds);
    }
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(size(samples[a]), a) < std::pair(size(samples[b]), b);
    });
    for (const std::size_t i : order) {
      const std::int64_t now = size(samples[i]);
      if (sizes.empty() || sizes.back() != now) {
        sizes.push_back(now);
        ends.push_back(ends.empty() ? 0 : ends.back());
      }
      ++ends.back();
      logs.push_back(std::log(samples[i].seconds));
    }
  }

  bool repeated() const { return logs.size() > sizes.size(); }
  std::size_t begin(std::size_t group) const { return group == 0 ? 0 : ends[group - 1]; }
};

std::vector<double> clipped(const std::vector<double>& residuals) {
  std::vector<double> result;
  for (const double z : residuals) result.push_back(huber(z));
  return result;
}

// Draws residuals, in units of the scatter, for another round.
class ResidualPool {
 public:
  // `factor`: by how much residuals are too small for what the fit has taken up of them.
  ResidualPool(const std::vector<double>& residuals, double factor) : pool_(residuals) {
    for (double& z : pool_) z *= factor;
  }
  double draw(RandomStream& random) const {
    if (pool_.size() < kEnoughResiduals) return normal_draw(random);
    return pool_[draw_index(random, pool_.size())];
  }

 private:
  std::vector<double> pool_;
};

template <typename Fit>
void report(Fit& fit, const Sorted& sorted, const std::vector<double>& residuals,
            const std::string& model) {
  fit.residuals.resize(residuals.size());
  for (std::size_t i = 0; i < residuals.size(); ++i) {
    fit.residuals[sorted.order[i]] = residuals[i];
    if (std::abs(residuals[i]) > kOutlier) fit.outliers.push_back(sorted.order[i]);
  }
  std::sort(fit.outliers.begin(), fit.outliers.end());
  if (fit.lack_of_fit < kUnlikely) {
    fit.warnings.push_back(
        model +
        " does not describe the times: a difference as large as theirs has the probability " +
        shortest(std::round(fit.lack_of_fit * 1e4) / 1e4) + "; use the measured table");
  }
  if (!fit.outliers.empty()) {
    fit.warnings.push_back(std::to_string(fit.outliers.size()) + " of " +
                           std::to_string(residuals.size()) +
                           " times are far off; measure them again");
  }
}

void limit_to_what_was_seen(ComputeFit& fit, const Sorted& sorted) {
  const double smallest = static_cast<double>(sorted.sizes.front());
  const double largest = static_cast<double>(sorted.sizes.back());
  if (!fit.flat_seen) {
    fit.knee_samples = {smallest, {0, smallest}};
    for (ComputeDraw& draw : fit.draws) draw.knee_samples = smallest;
    if (smallest > 1) {
      fit.warnings.push_back("no flat part: M_T is at most " +
                             std::to_string(sorted.sizes.front()) + "; measure smaller batches");
    }
  }
  if (!fit.slope_seen) {
    fit.knee_samples = {largest, {largest, std::numeric_limits<double>::infinity()}};
    fit.seconds_per_sample.interval.low = 0;
    for (ComputeDraw& draw : fit.draws) draw.knee_samples = largest;
    fit.warnings.push_back("no part that rises: M_T is at least " +
                           std::to_string(sorted.sizes.back()) + "; measure larger batches");
  }
}

struct Kind {
  CommunicationKind kind;
  double scatter;
  Location location;
  std::vector<double> residuals;  // log seconds - log f(P) - center, sorted
};

double log_factor(CommunicationKind kind, std::int64_t workers) {
  Communication unit;
  unit.kind = kind;
  unit.delta_s = 1;
  return std::log(communication_seconds(unit, workers));
}

Kind located(const Sorted& sorted, CommunicationKind kind) {
  std::vector<double> values;
  for (std::size_t g = 0; g < sorted.sizes.size(); ++g) {
    const double factor = log_factor(kind, sorted.sizes[g]);
    for (std::size_t i = sorted.begin(g); i < sorted.ends[g]; ++i) {
      values.push_back(sorted.logs[i] - factor);
    }
  }
  Kind result{kind, 0, location_of(values), {}};
  result.scatter = result.location.scatter;
  for (const double value : values) result.residuals.push_back(value - result.location.center);
  return result;
}

Sorted sorted_communication(const std::vector<CommunicationSample>& samples) {
  if (samples.size() < 2) {
    throw UsageError("a fit of communication needs at least 2 times; there are " +
                     std::to_string(samples.size()));
  }
  return {samples, "the number of workers of a measured time", 2,
          [](const CommunicationSample& sample) { return sample.workers; }};
}

CommunicationFit fit_of(const Sorted& sorted, const Kind& kind, const FitOptions& options) {
  CommunicationFit fit;
  fit.kind = kind.kind;
  fit.scatter = kind.scatter;
  const double mean = mean_shift(kind.scatter);
  fit.delta_s.value = std::exp(kind.location.center + mean);
  std::vector<double> residuals(kind.residuals);
  if (kind.scatter > 0) {
    for (double& z : residuals) z /= kind.scatter;
  }
  const double count = static_cast<double>(residuals.size());
  const ResidualPool pool(residuals, std::sqrt(count / (count - 1)));
  std::vector<double> values(residuals.size()), misfits, scores(residuals.size());
  for (int round = 0; round < options.rounds; ++round) {
    if (kind.scatter == 0) {
      fit.draws.push_back(fit.delta_s.value);
      continue;
    }
    RandomStream random(options.seed, number_of("communication"),
                        static_cast<std::uint64_t>(round));
    for (double& value : values) value = pool.draw(random);
    const Location again = improved_location(values, {0, 1}, 1, 1e-3);
    const double t = again.scatter > 0 ? again.center / again.scatter : 0;
    fit.draws.push_back(std::exp(kind.location.center + mean -
                                 std::clamp(t * kind.scatter, -kFarthest, kFarthest)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      scores[i] = huber(again.scatter > 0 ? (values[i] - again.center) / again.scatter : 0);
    }
    misfits.push_back(misfit(scores, sorted.ends));
  }
  fit.delta_s.interval = interval_of(fit.draws);
  if (sorted.sizes.size() > 1 && sorted.repeated() && kind.scatter > 0) {
    fit.lack_of_fit = probability_of(misfit(clipped(residuals), sorted.ends), misfits);
  }
  report(fit, sorted, residuals, std::string("the model '") + std::string(name(kind.kind)) + "'");
  return fit;
}

// Fits the hinge and, in turns with it, how scatter goes with the batch.
HingeFit fit_with_trend(Hinge& hinge, const Sorted& sorted, double& trend) {
  HingeFit fit = hinge.first(sorted.logs);
  const int turns = sorted.logs.size() < kEnoughResiduals ? 0 : 3;
  for (int turn = 0; turn < turns && fit.scatter > 0; ++turn) {
    std::vector<Residuals> residuals;
    for (std::size_t g = 0; g < sorted.sizes.size(); ++g) {
      Residuals of{hinge.x()[g], {}, {}};
      for (std::size_t i = sorted.begin(g); i < sorted.ends[g]; ++i) {
        of.reached.push_back((sorted.logs[i] - hinge.center(fit, g)) / fit.scatter);
      }
      residuals.push_back(std::move(of));
    }
    trend = scatter_trend(residuals);
    hinge.set_scales(scatter_scales(residuals, trend));
    fit = hinge.improved(sorted.logs, fit, 1e-9);
  }
  return fit;
}

// Fills in the draws; returns the rounds' misfits.
std::vector<double> draw_hinges(Hinge& hinge, const Sorted& sorted, const HingeFit& best,
                                const std::vector<double>& residuals, const FitOptions& options,
                                ComputeFit& fit) {
  const double count = static_cast<double>(residuals.size());
  const ResidualPool pool(residuals, std::sqrt(count / (count - 2)));
  const auto off = [](double log) { return std::clamp(log, -kFarthest, kFarthest); };
  std::vector<double> y(sorted.logs), misfits;
  for (int round = 0; round < options.rounds; ++round) {
    if (best.scatter == 0) {
      fit.draws.push_back({fit.seconds_per_sample.value, fit.knee_samples.value, 0});
      continue;
    }
    RandomStream random(options.seed, number_of("times"), static_cast<std::uint64_t>(round));
    for (std::size_t g = 0; g < sorted.sizes.size(); ++g) {
      for (std::size_t i = sorted.begin(g); i < sorted.ends[g]; ++i) {
        y[i] = hinge.center(best, g) + hinge.scatter(best, g) * pool.draw(random);
      }
    }
    const HingeFit again = hinge.improved(y, best, 1e-3);
    // The level depends on the flat part alone, and the slope on the rest.
    const auto ratio = [&](double now, double then) {
      if (!(again.scatter > 0)) return 1.0;
      return best.scatter / again.scatter * std::sqrt(std::max(then, 0.5) / std::max(now, 0.5));
    };
    const double slope_ratio = ratio(best.rising_count, again.rising_count);
    const double level_ratio = ratio(best.flat_count, again.flat_count);
    const double slope = best.slope - off((again.slope - best.slope) * slope_ratio);
    const double level = best.level - off((again.level - best.level) * level_ratio);
    fit.draws.push_back({std::exp(slope), std::exp(level - slope), 0});
    if (sorted.repeated()) {
      misfits.push_back(misfit(clipped(hinge.residuals(y, again)), sorted.ends));
    }
  }
  return misfits;
}

// The same times as a fixed part and one that grows with the samples. Fills in all of the fit.
void fit_overhead(const Affine& line, const AffineFit& best, const Sorted& sorted,
                  const FitOptions& options, ComputeFit& fit) {
  fit = {};
  fit.scatter = best.scatter;
  fit.flat_seen = fit.slope_seen = true;
  fit.overhead_s.value = std::exp(best.fixed);
  fit.seconds_per_sample.value = std::exp(best.slope);
  fit.knee_samples = {1, {1, 1}};
  for (std::size_t g = 0; g < sorted.sizes.size(); ++g) {
    const double count = static_cast<double>(sorted.ends[g] - sorted.begin(g));
    const double fixed = best.fixed_part(static_cast<double>(sorted.sizes[g]));
    fit.flat_samples += count * fixed;
    fit.rising_samples += count * (1 - fixed);
  }
  const std::vector<double> residuals = line.residuals(sorted.logs, best);
  const double count = static_cast<double>(residuals.size());
  const ResidualPool pool(residuals, std::sqrt(count / (count - 2)));
  std::vector<double> y(sorted.logs), misfits, overheads, gammas;
  for (int round = 0; round < options.rounds; ++round) {
    if (best.scatter == 0) {
      fit.draws.push_back({fit.seconds_per_sample.value, 1, fit.overhead_s.value});
      continue;
    }
    RandomStream random(options.seed, number_of("times"), static_cast<std::uint64_t>(round));
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = line.center(best, i) + best.scatter * pool.draw(random);
    const AffineFit again = line.improved(y, best, 1e-3);
    // As far on the other side of the estimate as the round's came out on this one, in units of its
    // scatter.
    const double ratio = again.scatter > 0 ? best.scatter / again.scatter : 1;
    const auto drawn = [&](double then, double now) {
      return std::exp(then - std::clamp((now - then) * ratio, -kFarthest, kFarthest));
    };
    fit.draws.push_back({drawn(best.slope, again.slope), 1, drawn(best.fixed, again.fixed)});
    gammas.push_back(fit.draws.back().seconds_per_sample);
    overheads.push_back(fit.draws.back().overhead_s);
    misfits.push_back(misfit(clipped(line.residuals(y, again)), sorted.ends));
  }
  if (best.scatter > 0) {
    fit.seconds_per_sample.interval = interval_of(gammas);
    fit.overhead_s.interval = interval_of(overheads);
    fit.lack_of_fit = probability_of(misfit(clipped(residuals), sorted.ends), misfits);
  } else {
    fit.seconds_per_sample.interval = {fit.seconds_per_sample.value, fit.seconds_per_sample.value};
    fit.overhead_s.interval = {fit.overhead_s.value, fit.overhead_s.value};
  }
  report(fit, sorted, residuals, "t + gamma M");
}

template <typename Point>
std::vector<Point> table_of(const Sorted& sorted) {
  std::vector<Point> table;
  for (std::size_t g = 0; g < sorted.sizes.size(); ++g) {
    const std::size_t begin = sorted.begin(g);
    const Location at = location_of({sorted.logs.data() + begin, sorted.ends[g] - begin});
    table.push_back({sorted.sizes[g], std::exp(at.center + mean_shift(at.scatter))});
  }
  return table;
}

Sorted sorted_times(const std::vector<TimeSample>& samples) {
  return {samples, "the number of samples of a measured time", 1,
          [](const TimeSample& sample) { return sample.samples; }};
}

}  // namespace

ComputeFit fit_compute(const std::vector<TimeSample>& samples, const FitOptions& options) {
  check(options);
  const Sorted sorted = sorted_times(samples);
  if (samples.size() < 3 || sorted.sizes.size() < 2) {
    throw UsageError("a fit of times needs at least 3 of them, at two or more batches; there are " +
                     std::to_string(samples.size()) + " at " + std::to_string(sorted.sizes.size()));
  }
  std::vector<double> x;
  for (const std::int64_t size : sorted.sizes) x.push_back(std::log(static_cast<double>(size)));
  Hinge hinge(x, sorted.ends);
  ComputeFit fit;
  const HingeFit best = fit_with_trend(hinge, sorted, fit.scatter_trend);
  fit.scatter = best.scatter;
  fit.seconds_per_sample.value = std::exp(best.slope);
  fit.knee_samples.value = std::exp(best.knee());
  fit.flat_samples = best.flat_count;
  fit.rising_samples = best.rising_count;
  fit.flat_seen = best.knee() > x.front() + 1e-12;
  fit.slope_seen = best.knee() < x.back() - 1e-12;

  const std::vector<double> residuals = hinge.residuals(sorted.logs, best);
  const std::vector<double> misfits = draw_hinges(hinge, sorted, best, residuals, options, fit);
  std::vector<double> gammas, knees;
  for (const ComputeDraw& draw : fit.draws) {
    gammas.push_back(draw.seconds_per_sample);
    knees.push_back(draw.knee_samples);
  }
  fit.seconds_per_sample.interval = interval_of(gammas);
  fit.knee_samples.interval = interval_of(knees);
  if (sorted.sizes.size() > 2 && sorted.repeated() && best.scatter > 0) {
    fit.lack_of_fit = probability_of(misfit(clipped(residuals), sorted.ends), misfits);
  }
  if (fit.lack_of_fit < kUnlikely) {
    std::vector<double> sizes;
    for (std::size_t g = 0; g < sorted.sizes.size(); ++g)
      sizes.resize(sorted.ends[g], static_cast<double>(sorted.sizes[g]));
    const Affine line(std::move(sizes));
    const AffineFit other = line.first(sorted.logs);
    if (other.scatter < best.scatter) {
      fit_overhead(line, other, sorted, options, fit);
      return fit;
    }
  }
  limit_to_what_was_seen(fit, sorted);
  report(fit, sorted, residuals, "gamma max(M, M_T)");
  return fit;
}

std::vector<ComputePoint> compute_table(const std::vector<TimeSample>& samples) {
  return table_of<ComputePoint>(sorted_times(samples));
}

CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   CommunicationKind kind, const FitOptions& options) {
  check(options);
  if (kind == CommunicationKind::none || kind == CommunicationKind::table) {
    throw UsageError(
        "a fit of communication is for the kinds constant, server, ring and tree, not '" +
        std::string(name(kind)) + "'");
  }
  const Sorted sorted = sorted_communication(samples);
  return fit_of(sorted, located(sorted, kind), options);
}

CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   const FitOptions& options) {
  check(options);
  const Sorted sorted = sorted_communication(samples);
  Kind best = located(sorted, CommunicationKind::constant);
  if (sorted.sizes.size() > 1) {
    for (const auto kind :
         {CommunicationKind::server, CommunicationKind::ring, CommunicationKind::tree}) {
      Kind other = located(sorted, kind);
      if (other.scatter < best.scatter) best = std::move(other);
    }
  }
  return fit_of(sorted, best, options);
}

Communication communication_table(const std::vector<CommunicationSample>& samples) {
  Communication communication;
  communication.kind = CommunicationKind::table;
  const Sorted sorted(samples, "the number of workers of a measured time", 2,
                      [](const CommunicationSample& sample) { return sample.workers; });
  communication.table = table_of<CommunicationPoint>(sorted);
  return communication;
}

MeasuredMachine measured_machine(const ComputeFit& compute) {
  MeasuredMachine result;
  result.machine.seconds_per_sample = compute.seconds_per_sample.value;
  result.machine.knee_samples = compute.knee_samples.value;
  result.machine.overhead_s = compute.overhead_s.value;
  result.machine.source = "measured";
  result.compute_draws = compute.draws;
  return result;
}

MeasuredMachine measured_machine(const ComputeFit& compute, const CommunicationFit& communication) {
  MeasuredMachine result = measured_machine(compute);
  result.machine.communication.kind = communication.kind;
  result.machine.communication.delta_s = communication.delta_s.value;
  result.delta_draws = communication.draws;
  return result;
}

}  // namespace convoy::plan
