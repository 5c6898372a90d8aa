#include "plan/layer_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace convoy::plan {
namespace {

double count(const PassTime& time) { return static_cast<double>(time.samples); }

// Of the numbers of samples a < b, for which something takes that long.
double on_line(double samples, double a, double seconds_a, double b, double seconds_b) {
  const double line = seconds_a + (samples - a) / (b - a) * (seconds_b - seconds_a);
  if (samples >= a && samples <= b) return line;
  // A fixed part, and a part of each sample: neither is below 0, whatever was measured.
  const double nearest = samples < a ? seconds_a : seconds_b;
  const double in_proportion = nearest * samples / (samples < a ? a : b);
  return std::clamp(line, std::min(nearest, in_proportion), std::max(nearest, in_proportion));
}

}  // namespace

PassSeconds pass_seconds(const std::vector<PassTime>& all, double samples) {
  if (all.empty() || samples <= 0) return {};
  std::vector<PassTime> times = all;
  std::sort(times.begin(), times.end(),
            [](const auto& a, const auto& b) { return a.samples < b.samples; });
  times.erase(std::unique(times.begin(), times.end(),
                          [](const auto& a, const auto& b) { return a.samples == b.samples; }),
              times.end());
  if (times.size() == 1) {
    const double factor = samples / count(times.front());
    return {times.front().forward_s * factor, times.front().backward_s * factor};
  }
  auto after = std::find_if(times.begin() + 1, times.end(),
                            [samples](const PassTime& time) { return count(time) >= samples; });
  if (after == times.end()) --after;
  const PassTime &a = *(after - 1), &b = *after;
  const auto at = [&](double seconds_a, double seconds_b) {
    return on_line(samples, count(a), seconds_a, count(b), seconds_b);
  };
  return {at(a.forward_s, b.forward_s), at(a.backward_s, b.backward_s)};
}

PassSeconds pass_seconds(const LayerCost& layer, double samples, std::int64_t units) {
  if (layer.times.empty()) return {};
  const auto part_of = [&layer](std::int64_t some) {
    if (some == 0 || layer.units == 0) return 1.0;
    return static_cast<double>(some) / static_cast<double>(layer.units);
  };
  const double wanted = part_of(units);
  const auto distance = [&](const PassTime& time) {
    return std::abs(std::log(part_of(time.units) / wanted));
  };
  const double nearest = part_of(
      std::min_element(layer.times.begin(), layer.times.end(), [&](const auto& a, const auto& b) {
        return distance(a) < distance(b);
      })->units);
  std::vector<PassTime> times;
  for (const PassTime& time : layer.times) {
    if (part_of(time.units) == nearest) times.push_back(time);
  }
  const PassSeconds found = pass_seconds(times, samples);
  return {found.forward * wanted / nearest, found.backward * wanted / nearest};
}

}  // namespace convoy::plan
