// Times that were measured several times for each size, as fits take them.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/checks.h"
#include "plan/location.h"
#include "plan/robust.h"

namespace convoy::plan {

// A difference from a model that is less probable is no chance.
inline constexpr double kUnlikely = 0.01;
// Below this number of residuals, they say less about how scatter is distributed than that it is
// nearly normal.
inline constexpr std::size_t kEnoughResiduals = 20;

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

inline std::vector<double> clipped(const std::vector<double>& residuals) {
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

// Fills in residuals and outliers, and warns where there are any, or the model does not fit, with
// what to do then.
template <typename Fit>
void report(Fit& fit, const Sorted& sorted, const std::vector<double>& residuals,
            const std::string& model, const std::string& advice = "") {
  constexpr double kOutlier = 4;
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
        shortest(std::round(fit.lack_of_fit * 1e4) / 1e4) + advice);
  }
  if (!fit.outliers.empty()) {
    fit.warnings.push_back(std::to_string(fit.outliers.size()) + " of " +
                           std::to_string(residuals.size()) +
                           " times are far off; measure them again");
  }
}

// The mean over each size.
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

}  // namespace convoy::plan
