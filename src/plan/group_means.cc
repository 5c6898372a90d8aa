#include "plan/group_means.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "plan/robust.h"

namespace convoy::plan {
namespace {

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

GroupMeans group_means(const std::vector<std::vector<double>>& groups, double known,
                       double freedom) {
  GroupMeans means;
  double squares = 0, count = 0;
  for (const std::vector<double>& group : groups) {
    means.centers.push_back(median_of(group));
    for (const double value : group)
      squares += (value - means.centers.back()) * (value - means.centers.back());
    count += static_cast<double>(group.size());
  }
  means.freedom = count - static_cast<double>(groups.size()) + freedom;
  if (means.freedom <= 0) return means;
  double& s = means.scatter;
  s = std::sqrt((squares + freedom * known * known) / means.freedom);
  constexpr double kRounding = 1e-13;
  for (int i = 0; i < 200 && s > kRounding; ++i) {
    const double before = s;
    double scores = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      double weights = 0, sum = 0;
      for (const double value : groups[g]) {
        const double z = std::abs(value - means.centers[g]) / s;
        const double weight = z > kHuber ? kHuber / z : 1;
        weights += weight, sum += weight * value;
      }
      means.centers[g] = sum / weights;
      const double n = static_cast<double>(groups[g].size());
      if (n < 2) continue;
      // Values are nearer to the mean of their own few than to the center that they scatter around;
      // drawn out to where they would be from that, as many of them are cut off as of any.
      const double drawn_out = std::sqrt(n / (n - 1));
      for (const double value : groups[g]) {
        const double z = drawn_out * (value - means.centers[g]) / s;
        scores += std::pow(huber(z) / drawn_out, 2);
      }
    }
    s = std::sqrt((s * s * scores / kMeanSquare + freedom * known * known) / means.freedom);
    if (std::abs(s - before) <= 1e-9 * before) break;
  }
  if (s <= kRounding) s = 0;
  return means;
}

}  // namespace convoy::plan
