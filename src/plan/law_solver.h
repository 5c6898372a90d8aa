// Robust fits of equation 2 to logarithms of updates, some of them censored.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace convoy::plan {

// The runs of one batch, as logarithms of updates.
struct LogRuns {
  std::vector<double> reached;
  std::vector<double> stopped;  // before the target

  std::size_t size() const { return reached.size() + stopped.size(); }
};

struct LawGroup {
  double x = 0;      // 1 / M
  double scale = 1;  // of the scatter at this batch
  const LogRuns* runs = nullptr;
};

// Equation 2, told by the logarithms of the mean updates at two batches, of which any two numbers
// make a law: the line through exp(ends[0]) at the low and exp(ends[1]) at the high end. The center
// of log(updates) is half the squared scatter below the logarithm of the mean.
struct LawFit {
  std::array<double, 2> ends{};
  double scatter = 0;  // where the scale is 1
  // l00, l10, l11: lower triangular, its product with its transpose is the covariance of the ends.
  std::array<double, 3> root{};
};

class LawSolver {
 public:
  // x_low < x_high: the ends.
  LawSolver(double x_low, double x_high) : x_low_(x_low), x_high_(x_high) {}

  // Begins with a fit of similar runs, and stops when a step is below `tolerance` standard errors.
  LawFit improved(std::span<const LawGroup> groups, LawFit fit, double tolerance) const;

  // The center of log(updates) in a group.
  double center(const LawFit& fit, const LawGroup& group) const;

  // N_inf and alpha of ends.
  struct Line {
    double at_zero, slope;
  };
  Line line(const std::array<double, 2>& ends) const;

 private:
  double x_low_, x_high_;
};

// The robust center of a few runs, some censored, for a known scatter > 0; the last stop where all
// are.
double center_of(const LogRuns& runs, double scatter);

// The sum of the curvatures of runs around a center: their number times the mean slope of psi, less
// what censoring takes.
double information_of(const LogRuns& runs, double center, double scatter);

}  // namespace convoy::plan
