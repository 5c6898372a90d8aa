#include "plan/law_solver.h"

#include <algorithm>
#include <cmath>

#include "plan/robust.h"

namespace convoy::plan {
namespace {

struct Scores {
  double score = 0, square = 0, slope = 0;
};

Scores scores_of(const LogRuns& runs, double center, double scatter) {
  Scores sum;
  const double unit = 1 / scatter;
  for (const double y : runs.reached) {
    const double psi = huber((y - center) * unit);
    sum.score += psi;
    sum.square += psi * psi;
  }
  sum.slope = kMeanSlope * static_cast<double>(runs.reached.size());
  CensoredScore censored{};
  double last = -1;
  for (const double y : runs.stopped) {
    // Runs of one batch are mostly stopped at the same number of updates.
    if (y != last) censored = censored_score((y - center) * unit);
    last = y;
    sum.score += censored.score;
    sum.square += censored.square;
    sum.slope += censored.slope;
  }
  return sum;
}

}  // namespace

double information_of(const LogRuns& runs, double center, double scatter) {
  return scores_of(runs, center, scatter).slope;
}

double center_of(const LogRuns& runs, double scatter) {
  if (runs.reached.empty()) return *std::max_element(runs.stopped.begin(), runs.stopped.end());
  double center = 0;
  for (const double y : runs.reached) center += y / static_cast<double>(runs.reached.size());
  for (int i = 0; i < 50; ++i) {
    const Scores sum = scores_of(runs, center, scatter);
    const double step = scatter * sum.score / sum.slope;
    center += step;
    if (std::abs(step) < 1e-6 * scatter) break;
  }
  return center;
}

double LawSolver::center(const LawFit& fit, const LawGroup& group) const {
  const double part = (group.x - x_low_) / (x_high_ - x_low_);
  const double low = (1 - part) * std::exp(fit.ends[0]);
  const double high = part * std::exp(fit.ends[1]);
  // Outside of the two ends a steep line can come below 0.
  return std::log(std::max(low + high, 1e-3 * (std::abs(low) + std::abs(high)))) -
         mean_shift(fit.scatter * group.scale);
}

LawSolver::Line LawSolver::line(const std::array<double, 2>& ends) const {
  const double low = std::exp(ends[0]), high = std::exp(ends[1]);
  const double slope = (high - low) / (x_high_ - x_low_);
  return {low - slope * x_low_, slope};
}

LawFit LawSolver::improved(std::span<const LawGroup> groups, LawFit fit, double tolerance) const {
  double count = 0;
  for (const LawGroup& group : groups) count += static_cast<double>(group.runs->size());
  for (int i = 0; i < 200; ++i) {
    const double at_low = std::exp(fit.ends[0]), at_high = std::exp(fit.ends[1]);
    double g0 = 0, g1 = 0, a00 = 0, a10 = 0, a11 = 0, square = 0;
    for (const LawGroup& group : groups) {
      // As center(), and its derivatives by the ends.
      const double part = (group.x - x_low_) / (x_high_ - x_low_);
      const double low = (1 - part) * at_low, high = part * at_high;
      const double updates = std::max(low + high, 1e-3 * (std::abs(low) + std::abs(high)));
      const double scatter = fit.scatter * group.scale;
      const double d0 = low / updates / group.scale, d1 = high / updates / group.scale;
      const Scores sum = scores_of(*group.runs, std::log(updates) - mean_shift(scatter), scatter);
      square += sum.square;
      g0 += sum.score * d0;
      g1 += sum.score * d1;
      a00 += sum.slope * d0 * d0;
      a10 += sum.slope * d0 * d1;
      a11 += sum.slope * d1 * d1;
    }
    const double determinant = std::max(a00 * a11 - a10 * a10, 1e-12 * a00 * a11);
    const double variance = fit.scatter * fit.scatter * kMeanSquare / kMeanSlope / determinant;
    const double l00 = std::sqrt(a11 * variance);
    const double l10 = -a10 * variance / l00;
    // Where all runs of a batch were stopped its end moves on until they say nothing of it.
    if (!std::isfinite(l00) || !std::isfinite(l10)) break;
    fit.root = {l00, l10, std::sqrt(std::max(a00 * variance - l10 * l10, 0.0))};
    const double factor = std::sqrt(square / ((count - 2) * kMeanSquare));
    // Far away the logarithm of a line is no line: short steps.
    const double step0 = std::clamp(fit.scatter * (a11 * g0 - a10 * g1) / determinant, -0.7, 0.7);
    const double step1 = std::clamp(fit.scatter * (a00 * g1 - a10 * g0) / determinant, -0.7, 0.7);
    fit.ends[0] += step0;
    fit.ends[1] += step1;
    fit.scatter = std::max(fit.scatter * std::clamp(factor, 0.5, 2.0), 1e-9);
    if (std::abs(step0) < tolerance * l00 &&
        std::abs(step1) < tolerance * std::hypot(l10, fit.root[2]) &&
        std::abs(factor - 1) < tolerance) {
      break;
    }
  }
  return fit;
}

}  // namespace convoy::plan
