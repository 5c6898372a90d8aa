// What the robust fits share: Huber's score, also of censored values, and the normal distribution.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/base/random.h"
#include "convoy/plan/estimate.h"

namespace convoy::plan {

// Least squares within, least absolute values beyond; 95% as efficient as the mean for normal
// scatter. In units of the scatter.
inline constexpr double kHuber = 1.345;
inline constexpr double kMeanSlope = 0.8213747654313257;  // E psi'(z) for normal z: P(|z| < kHuber)
inline constexpr double kMeanSquare = 0.7101645482690486;  // E psi(z)^2
// The variance of an M-estimate over that of the mean: E psi^2 / (E psi')^2.
inline constexpr double kVariance = kMeanSquare / (kMeanSlope * kMeanSlope);

inline double huber(double z) { return std::clamp(z, -kHuber, kHuber); }

double normal_density(double z);
double normal_above(double z);  // P(Z > z)
double normal_draw(RandomStream& random);

// What is known of the score of a run that was stopped at c, in units of the scatter from the
// center: the mean of psi(Z) and of psi(Z)^2 for normal Z > c, and how fast the first grows with c.
// Over all normal Z, stopped or not, the scores' mean is 0 as without stops.
struct CensoredScore {
  double score, square, slope;
};
CensoredScore censored_score(double c);

// Residuals of one size, u being its logarithm.
struct Residuals {
  double u = 0;
  std::vector<double> reached;
  std::vector<double> stopped;  // of censored values: the residuals of their stops
};

// How scatter changes with size: b of a scatter that goes as exp(b u). Estimated as scatter itself
// is, and drawn towards 0 as if b were normal with a standard deviation of 0.1 (a factor of 1.6
// over a hundredfold size), which a few residuals don't overcome.
double scatter_trend(const std::vector<Residuals>& residuals);
// The scatter of each size over the one of the mean size, for that trend.
std::vector<double> scatter_scales(const std::vector<Residuals>& residuals, double trend);

// A normal number above c.
double normal_draw_above(double c, RandomStream& random);

// Any of 0 .. count-1; for count < 2^32, with a bias of count / 2^32.
inline std::size_t draw_index(RandomStream& random, std::size_t count) {
  return static_cast<std::size_t>(((random() >> 32) * count) >> 32);
}

// A value of 0 for an even spread: how far the groups' means are from the fit, over how far the
// values are from their groups' means. The comparison with the same of the bootstrap's rounds says
// how likely such a value is where the model holds.
double misfit(std::span<const double> residuals, std::span<const std::size_t> group_ends);

// The part of `rounds` where the statistic was at least as large, never 0.
double probability_of(double statistic, const std::vector<double>& rounds);

// Says by how much the logarithm of the mean is above the mean of logarithms: half their variance,
// as for log-normal scatter. Scatter of more than 100% is none of that kind, and counts as 100%.
inline double mean_shift(double scatter) { return std::min(scatter * scatter, 1.0) / 2; }

// How far a draw can be from the estimate, as a logarithm: beyond all use, and still a number.
inline constexpr double kFarthest = 100;

void check(const FitOptions& options);

}  // namespace convoy::plan
