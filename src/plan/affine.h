// A robust fit of times that grow from a fixed part on: y = log(exp(fixed) + exp(slope) m), of
// sizes m. As hinge.h has it, this is the logarithm of means; y scatters around half its variance
// below.
#pragma once

#include <span>
#include <vector>

#include "plan/robust.h"

namespace convoy::plan {

struct AffineFit {
  double fixed = 0;    // logarithm of what any size takes
  double slope = 0;    // logarithm of what each unit of size takes
  double scatter = 0;  // standard deviation of y

  double at(double m) const { return std::log(std::exp(fixed) + std::exp(slope) * m); }
  // The part of the time at m that is fixed.
  double fixed_part(double m) const { return std::exp(fixed - at(m)); }
};

// For a size of each value.
class Affine {
 public:
  explicit Affine(std::vector<double> sizes) : sizes_(std::move(sizes)) {}

  AffineFit first(std::span<const double> y) const;
  // Begins with a fit of similar values, and stops when a step is below `tolerance` scatters.
  AffineFit improved(std::span<const double> y, AffineFit fit, double tolerance) const;

  // What y scatters around.
  double center(const AffineFit& fit, std::size_t i) const {
    return fit.at(sizes_[i]) - mean_shift(fit.scatter);
  }
  // Residuals in units of the scatter.
  std::vector<double> residuals(std::span<const double> y, const AffineFit& fit) const;

 private:
  std::vector<double> sizes_;
};

}  // namespace convoy::plan
