#include "plan/hinge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "plan/location.h"

namespace convoy::plan {

// Huber's weights and the groups' weighted means for this fit; returns the sum of squared scores.
double Hinge::weigh(std::span<const double> y, const HingeFit& fit) {
  double squares = 0;
  std::size_t i = 0;
  for (std::size_t g = 0; g < x_.size(); ++g) {
    const double center = this->center(fit, g);
    const double scatter = this->scatter(fit, g);
    double weight = 0, sum = 0;
    for (; i < ends_[g]; ++i) {
      const double residual = y[i] - center;
      const double z = scatter > 0 ? std::abs(residual) / scatter : 0;
      const double w = z > kHuber ? kHuber / z : 1;
      weight += w;
      sum += w * residual;
      squares += std::min(z, kHuber) * std::min(z, kHuber);
    }
    weights_[g] = weight / (scales_[g] * scales_[g]);
    means_[g] = fit.at(x_[g]) + sum / weight;
  }
  return squares;
}

std::vector<double> Hinge::residuals(std::span<const double> y, const HingeFit& fit) const {
  std::vector<double> z;
  for (std::size_t g = 0; g < x_.size(); ++g) {
    const double center = this->center(fit, g);
    const double scatter = this->scatter(fit, g);
    while (z.size() < ends_[g]) z.push_back(scatter > 0 ? (y[z.size()] - center) / scatter : 0);
  }
  return z;
}

void Hinge::consider(double slope, double knee, double& best, HingeFit& fit) const {
  double squares = 0;
  for (std::size_t g = 0; g < x_.size(); ++g) {
    const double distance = means_[g] - slope - std::max(x_[g], knee);
    squares += weights_[g] * distance * distance;
  }
  if (squares >= best) return;
  best = squares;
  fit.slope = slope;
  fit.level = slope + knee;
}

// The exact least squares hinge through the groups' means: the knee is at a group or between two.
HingeFit Hinge::least_squares() const {
  double best = std::numeric_limits<double>::infinity();
  HingeFit fit;
  double all_weights = 0, rising_weights = 0, rising_sum = 0, flat_weights = 0, flat_sum = 0;
  for (std::size_t g = 0; g < x_.size(); ++g) {
    all_weights += weights_[g];
    rising_weights += weights_[g];
    rising_sum += weights_[g] * (means_[g] - x_[g]);
  }
  for (std::size_t g = 0; g < x_.size(); ++g) {
    // With the knee at this group all others follow.
    consider((rising_sum + flat_sum - flat_weights * x_[g]) / all_weights, x_[g], best, fit);
    flat_weights += weights_[g];
    flat_sum += weights_[g] * means_[g];
    rising_weights -= weights_[g];
    rising_sum -= weights_[g] * (means_[g] - x_[g]);
    if (g + 1 == x_.size()) break;
    const double slope = rising_sum / rising_weights;
    const double knee = flat_sum / flat_weights - slope;
    if (x_[g] < knee && knee < x_[g + 1]) consider(slope, knee, best, fit);
  }
  return fit;
}

void Hinge::count(HingeFit& fit) const {
  fit.flat_count = fit.rising_count = 0;
  std::size_t begin = 0;
  for (std::size_t g = 0; g < x_.size(); ++g) {
    const double count = static_cast<double>(ends_[g] - begin) / (scales_[g] * scales_[g]);
    begin = ends_[g];
    const double flat = x_[g] < fit.knee() - 1e-12 ? 1 : x_[g] < fit.knee() + 1e-12 ? 0.5 : 0;
    fit.flat_count += flat * count;
    fit.rising_count += (1 - flat) * count;
  }
}

HingeFit Hinge::first(std::span<const double> y) {
  // Medians would do as a start if there were always several values of an x; so does all within the
  // scatter of one bad sample.
  HingeFit fit;
  weigh(y, fit);
  fit = least_squares();
  std::vector<double> residuals;
  std::size_t i = 0;
  for (std::size_t g = 0; g < x_.size(); ++g) {
    for (; i < ends_[g]; ++i) residuals.push_back(y[i] - fit.at(x_[g]));
  }
  fit.scatter = location_of(residuals, 2).scatter;
  return improved(y, fit, 1e-9);
}

HingeFit Hinge::improved(std::span<const double> y, HingeFit fit, double tolerance) {
  const double freedom = static_cast<double>(y.size()) - 2;
  for (int i = 0; i < 200 && fit.scatter > 0; ++i) {
    const double squares = weigh(y, fit);
    const HingeFit next = least_squares();
    const double scatter = fit.scatter * std::sqrt(squares / (freedom * kMeanSquare));
    const double step =
        std::max({std::abs(next.level - fit.level), std::abs(next.slope - fit.slope),
                  std::abs(scatter - fit.scatter)});
    const double before = fit.scatter;
    fit.level = next.level;
    fit.slope = next.slope;
    fit.scatter = scatter;
    // An exact hinge leaves rounding errors only.
    if (scatter < 1e-13) fit.scatter = 0;
    if (step <= tolerance * before) break;
  }
  count(fit);
  return fit;
}

}  // namespace convoy::plan
