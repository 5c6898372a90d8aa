#include "plan/affine.h"

#include <algorithm>
#include <cmath>

#include "plan/location.h"

namespace convoy::plan {

std::vector<double> Affine::residuals(std::span<const double> y, const AffineFit& fit) const {
  std::vector<double> z;
  for (std::size_t i = 0; i < y.size(); ++i)
    z.push_back(fit.scatter > 0 ? (y[i] - center(fit, i)) / fit.scatter : 0);
  return z;
}

AffineFit Affine::first(std::span<const double> y) const {
  // Through the smallest and the largest size; a fixed part of nothing has no logarithm.
  const auto [least, most] = std::minmax_element(sizes_.begin(), sizes_.end());
  const double low = std::exp(y[static_cast<std::size_t>(least - sizes_.begin())]);
  const double high = std::exp(y[static_cast<std::size_t>(most - sizes_.begin())]);
  const double slope = std::max((high - low) / (*most - *least), 1e-3 * high / *most);
  AffineFit fit;
  fit.slope = std::log(slope);
  fit.fixed = std::log(std::max(low - slope * *least, 1e-3 * low));
  std::vector<double> residuals;
  for (std::size_t i = 0; i < y.size(); ++i) residuals.push_back(y[i] - fit.at(sizes_[i]));
  fit.scatter = location_of(residuals, 2).scatter;
  return improved(y, fit, 1e-9);
}

// Steps of Gauss and Newton with Huber's weights, each followed by one of the scatter.
AffineFit Affine::improved(std::span<const double> y, AffineFit fit, double tolerance) const {
  const double freedom = static_cast<double>(y.size()) - 2;
  for (int i = 0; i < 200 && fit.scatter > 0; ++i) {
    double ff = 0, fs = 0, ss = 0, f = 0, s = 0, squares = 0;
    for (std::size_t k = 0; k < y.size(); ++k) {
      const double residual = y[k] - center(fit, k);
      const double z = std::abs(residual) / fit.scatter;
      const double w = z > kHuber ? kHuber / z : 1;
      const double fixed = fit.fixed_part(sizes_[k]), rest = 1 - fixed;
      ff += w * fixed * fixed;
      fs += w * fixed * rest;
      ss += w * rest * rest;
      // The residual of the mean, as the hinge's.
      f += w * fixed * residual;
      s += w * rest * residual;
      squares += std::min(z, kHuber) * std::min(z, kHuber);
    }
    // A part that hardly counts anywhere moves little.
    const double ridge = 1e-9 * (ff + ss);
    ff += ridge, ss += ridge;
    const double determinant = ff * ss - fs * fs;
    const double to_fixed = std::clamp((ss * f - fs * s) / determinant, -1.0, 1.0);
    const double to_slope = std::clamp((ff * s - fs * f) / determinant, -1.0, 1.0);
    const double before = fit.scatter;
    fit.fixed = std::max(fit.fixed + to_fixed, fit.slope - kFarthest);
    fit.slope += to_slope;
    fit.scatter = before * std::sqrt(squares / (freedom * kMeanSquare));
    const double step =
        std::max({std::abs(to_fixed), std::abs(to_slope), std::abs(fit.scatter - before)});
    // An exact line leaves rounding errors only.
    if (fit.scatter < 1e-13) fit.scatter = 0;
    if (step <= tolerance * before) break;
  }
  return fit;
}

}  // namespace convoy::plan
