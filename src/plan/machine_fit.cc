#include "convoy/plan/machine_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/affine.h"
#include "plan/hinge.h"
#include "plan/repetitions.h"
#include "plan/robust.h"

namespace convoy::plan {
namespace {

// How much likelier an overhead has to be where the hinge describes the times, or nothing tells.
const double kMuchLikelier = std::log(100);

// Part of a time that a model may miss it by, however sure that is.
constexpr double kCloseEnough = 0.05;

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
  fit.flat_seen = best.fixed_part(static_cast<double>(sorted.sizes.front())) > 0.5;
  fit.slope_seen = best.fixed_part(static_cast<double>(sorted.sizes.back())) < 0.5;
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
    if (sorted.repeated())
      fit.lack_of_fit = probability_of(misfit(clipped(residuals), sorted.ends), misfits);
  } else {
    fit.seconds_per_sample.interval = {fit.seconds_per_sample.value, fit.seconds_per_sample.value};
    fit.overhead_s.interval = {fit.overhead_s.value, fit.overhead_s.value};
  }
  if (!fit.flat_seen && sorted.sizes.front() > 1) {
    fit.warnings.emplace_back(
        "the overhead is less than half of every time; measure smaller batches");
  }
  if (!fit.slope_seen) {
    fit.warnings.emplace_back(
        "the overhead is more than half of every time; measure larger batches");
  }
  report(fit, sorted, residuals, "t + gamma M");
}

// The logarithm of how many times as likely as by the hinge the times are by the line. Both have
// two parameters and one scatter for all times, so that what they leave unexplained is comparable;
// what is not known of the scatter is integrated out.
double log_odds(double hinge_scatter, double line_scatter, std::size_t times) {
  constexpr double kSure = 1e9;
  if (hinge_scatter <= 0) return -kSure;
  if (line_scatter <= 0) return kSure;
  return (static_cast<double>(times) - 2) * std::log(hinge_scatter / line_scatter);
}

// The times' own means where the model is not good enough for them.
void take_means(const Sorted& sorted, const std::string& model, ComputeFit& fit) {
  if (!(fit.lack_of_fit < kUnlikely)) return;
  std::vector<ComputePoint> means = table_of<ComputePoint>(sorted);
  const auto miss = [&](const ComputePoint& point) {
    const double samples = std::max(static_cast<double>(point.samples), fit.knee_samples.value);
    const double fitted = fit.overhead_s.value + fit.seconds_per_sample.value * samples;
    return std::abs(point.seconds / fitted - 1);
  };
  const auto worst = std::max_element(
      means.begin(), means.end(),
      [&](const ComputePoint& a, const ComputePoint& b) { return miss(a) < miss(b); });
  if (miss(*worst) <= kCloseEnough) return;
  fit.warnings.push_back(
      model + " misses the times of " + std::to_string(worst->samples) + " samples by " +
      std::to_string(std::lround(100 * miss(*worst))) +
      "%: the means of measured times are used, and straight lines between them");
  fit.table = std::move(means);
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
  const double hinge_scatter = hinge.first(sorted.logs).scatter;  // without a trend
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
  if (sorted.sizes.size() > 2) {
    std::vector<double> sizes;
    for (std::size_t g = 0; g < sorted.sizes.size(); ++g)
      sizes.resize(sorted.ends[g], static_cast<double>(sorted.sizes[g]));
    const Affine line(std::move(sizes));
    const AffineFit other = line.first(sorted.logs);
    const double odds = log_odds(hinge_scatter, other.scatter, samples.size());
    if (odds > (fit.lack_of_fit < kUnlikely ? 0 : kMuchLikelier)) {
      fit_overhead(line, other, sorted, options, fit);
      take_means(sorted, "t + gamma M", fit);
      return fit;
    }
  }
  limit_to_what_was_seen(fit, sorted);
  report(fit, sorted, residuals, "gamma max(M, M_T)");
  take_means(sorted, "gamma max(M, M_T)", fit);
  return fit;
}

std::vector<ComputePoint> compute_table(const std::vector<TimeSample>& samples) {
  return table_of<ComputePoint>(sorted_times(samples));
}

MeasuredMachine measured_machine(const ComputeFit& compute) {
  MeasuredMachine result;
  result.machine.seconds_per_sample = compute.seconds_per_sample.value;
  result.machine.knee_samples = compute.knee_samples.value;
  result.machine.overhead_s = compute.overhead_s.value;
  result.machine.table = compute.table;
  result.machine.communication.kind = CommunicationKind::unknown;
  result.machine.source = "measured";
  result.compute_draws = compute.draws;
  if (compute.overhead_s.value > 0) return result;  // there is no knee
  result.knee_is_least = !compute.slope_seen;
  result.knee_is_most = !compute.flat_seen && compute.knee_samples.value > 1;
  return result;
}

MeasuredMachine measured_machine(const ComputeFit& compute, const CommunicationFit& communication) {
  MeasuredMachine result = measured_machine(compute);
  result.machine.communication.kind = communication.kind;
  result.machine.communication.delta_s = communication.delta_s.value;
  result.delta_draws = communication.draws;
  for (const ContentionFit& one : communication.contention) {
    result.machine.contention.push_back({one.workers, one.part.value});
    result.contention_draws.push_back(one.draws);
  }
  return result;
}

}  // namespace convoy::plan
