#include "train/report/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace convoy::train {
namespace {

// Calls use(indexes of the finite points) for each piece of the range of x that has some.
template <class Use>
void for_each_piece(const std::vector<double>& x, const std::vector<double>& y, std::size_t pieces,
                    Use&& use) {
  std::vector<std::size_t> points;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    least = std::min(least, x[i]);
    most = std::max(most, x[i]);
    points.push_back(i);
  }
  const auto piece_of = [&](std::size_t point) {
    if (most <= least) return std::size_t{0};
    const double part = (x[point] - least) / (most - least);
    return std::min(static_cast<std::size_t>(part * static_cast<double>(pieces)), pieces - 1);
  };
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin + 1;
    while (end < points.size() && piece_of(points[end]) == piece_of(points[begin])) ++end;
    use(std::vector<std::size_t>(points.begin() + static_cast<std::ptrdiff_t>(begin),
                                 points.begin() + static_cast<std::ptrdiff_t>(end)));
    begin = end;
  }
}

}  // namespace

Curve thin(const std::vector<double>& x, const std::vector<double>& y, std::size_t pieces) {
  Curve curve;
  for_each_piece(x, y, pieces, [&](const std::vector<std::size_t>& points) {
    const auto [least, most] = std::minmax_element(
        points.begin(), points.end(), [&y](std::size_t a, std::size_t b) { return y[a] < y[b]; });
    std::vector<std::size_t> kept{points.front(), *least, *most, points.back()};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const std::size_t i : kept) {
      curve.x.push_back(x[i]);
      curve.y.push_back(y[i]);
    }
  });
  return curve;
}

Curve means(const std::vector<double>& x, const std::vector<double>& y, std::size_t pieces) {
  Curve curve;
  std::size_t count = 0;
  for_each_piece(x, y, pieces, [&](const std::vector<std::size_t>& points) {
    double x_sum = 0, y_sum = 0;
    for (const std::size_t i : points) {
      x_sum += x[i];
      y_sum += y[i];
    }
    curve.x.push_back(x_sum / static_cast<double>(points.size()));
    curve.y.push_back(y_sum / static_cast<double>(points.size()));
    count += points.size();
  });
  if (count < 2 * curve.x.size()) return {};
  return curve;
}

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace convoy::train
