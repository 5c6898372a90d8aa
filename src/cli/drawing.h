// Parts of pictures.
#pragma once

#include <limits>
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

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

inline Plot blank(std::string description, std::string x_label) {
  Plot plot;
  plot.description = std::move(description);
  plot.x_label = std::move(x_label);
  return plot;
}

}  // namespace convoy::cli
