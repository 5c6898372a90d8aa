// Parts of a plan's pictures.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "train/report/plot.h"

namespace convoy::cli {

using train::Color;
using train::Mark;
using train::Plot;
using train::Series;

// In which times up to so many seconds are shown.
struct TimeUnit {
  double seconds = 1;
  const char* name = "s";
};
inline TimeUnit time_unit(double most) {
  constexpr double kMinute = 60, kHour = 3600, kSome = 2, kMilli = 1e-3, kMicro = 1e-6;
  if (most >= kSome * kHour) return {kHour, "h"};
  if (most >= kSome * kMinute) return {kMinute, "min"};
  if (most >= 1) return {1, "s"};
  return most >= kMilli ? TimeUnit{kMilli, "ms"} : TimeUnit{kMicro, "µs"};
}

inline Series series_of(Series::Style style, Color color, std::vector<double> x,
                        std::vector<double> y, bool dashed = false) {
  Series series;
  series.style = style;
  series.color = color;
  series.x = std::move(x);
  series.y = std::move(y);
  series.dashed = dashed;
  return series;
}

// Between two values of x, from bottom to top.
inline Series shade(Color color, double from, double to, double bottom, double top) {
  Series series = series_of(Series::Style::band, color, {from, to}, {bottom, bottom});
  series.y2 = {top, top};
  return series;
}

// `count` values from `low` to `high`, evenly apart in their logarithms.
inline std::vector<double> spread(double low, double high, int count = 160) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i)
    values.push_back(low * std::pow(high / low, static_cast<double>(i) / (count - 1)));
  return values;
}

// f of each.
template <class F>
std::vector<double> each(const std::vector<double>& x, const F& f) {
  std::vector<double> y;
  for (const double value : x) y.push_back(f(value));
  return y;
}

}  // namespace convoy::cli
