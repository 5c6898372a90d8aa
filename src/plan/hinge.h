// A robust hinge in logarithms: y = slope + max(x, knee), flat up to the knee and of slope 1 above.
// The hinge is that of the logarithms of means; y scatters around half its variance below it.
#pragma once

#include <span>
#include <vector>

#include "plan/robust.h"

namespace convoy::plan {

struct HingeFit {
  double level = 0;    // y of the flat part: slope + knee
  double slope = 0;    // y - x of the rising part
  double scatter = 0;  // standard deviation of y where the scale is 1
  double flat_count = 0,
         rising_count = 0;  // values on each side; those at the knee count half for each

  double knee() const { return level - slope; }
  double at(double x) const { return slope + (x > knee() ? x : knee()); }
};

// For values in groups of equal x, ascending.
class Hinge {
 public:
  Hinge(std::vector<double> x, std::vector<std::size_t> ends)
      : x_(std::move(x)),
        ends_(std::move(ends)),
        scales_(x_.size(), 1),
        means_(x_.size()),
        weights_(x_.size()) {}

  // How the scatter of each group compares with the fit's; 1 at first.
  void set_scales(std::vector<double> scales) { scales_ = std::move(scales); }

  HingeFit first(std::span<const double> y);
  // Begins with a fit of similar values, and stops when a step is below `tolerance` scatters.
  HingeFit improved(std::span<const double> y, HingeFit fit, double tolerance);

  // Residuals in units of their scatter.
  std::vector<double> residuals(std::span<const double> y, const HingeFit& fit) const;
  double scatter(const HingeFit& fit, std::size_t group) const {
    return fit.scatter * scales_[group];
  }
  // What y scatters around.
  double center(const HingeFit& fit, std::size_t group) const {
    return fit.at(x_[group]) - mean_shift(scatter(fit, group));
  }

  const std::vector<double>& x() const { return x_; }
  const std::vector<std::size_t>& ends() const { return ends_; }

 private:
  double weigh(std::span<const double> y, const HingeFit& fit);
  HingeFit least_squares() const;
  void consider(double slope, double knee, double& best, HingeFit& fit) const;
  void count(HingeFit& fit) const;

  std::vector<double> x_;
  std::vector<std::size_t> ends_;
  std::vector<double> scales_, means_, weights_;
};

}  // namespace convoy::plan
