#include "plan/location.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/robust.h"

namespace convoy::plan {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

Location location_of(std::span<const double> values, double parameters) {
  Location result{median({values.begin(), values.end()}), 0};
  const double freedom = static_cast<double>(values.size()) - parameters;
  if (freedom <= 0) return result;
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - result.center));
  result.scatter = median(distances) * 1.4826;
  if (result.scatter == 0) result.scatter = *std::max_element(distances.begin(), distances.end());
  if (result.scatter == 0) return result;
  return improved_location(values, result, parameters, 1e-12);
}

Location improved_location(std::span<const double> values, Location from, double parameters,
                           double tolerance) {
  const double count = static_cast<double>(values.size());
  for (int i = 0; i < 200; ++i) {
    double score = 0, square = 0;
    for (const double value : values) {
      const double psi = huber((value - from.center) / from.scatter);
      score += psi;
      square += psi * psi;
    }
    const double step = from.scatter * score / (kMeanSlope * count);
    const double factor = std::sqrt(square / ((count - parameters) * kMeanSquare));
    from.center += step;
    from.scatter *= factor;
    if (std::abs(step) < tolerance * from.scatter && std::abs(factor - 1) < tolerance) break;
    // Most values are equal: what differs are outliers.
    if (from.scatter < 1e-14 * (1 + std::abs(from.center))) break;
  }
  return from;
}

}  // namespace convoy::plan
