#include "plan/layer_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace convoy::plan {
namespace {

PassSeconds scaled(const PassTime& time, double factor) {
  return {time.forward_s * factor, time.backward_s * factor};
}

// `times` ascending, of one number of units.
PassSeconds at_samples(const std::vector<PassTime>& times, double samples) {
  const auto count = [](const PassTime& time) { return static_cast<double>(time.samples); };
  const auto after =
      std::lower_bound(times.begin(), times.end(), samples,
                       [&](const PassTime& time, double wanted) { return count(time) < wanted; });
  if (after == times.begin()) return scaled(*after, samples / count(*after));
  const PassTime& before = *(after - 1);
  if (after == times.end()) return scaled(before, samples / count(before));
  const double part = (samples - count(before)) / (count(*after) - count(before));
  return {before.forward_s + part * (after->forward_s - before.forward_s),
          before.backward_s + part * (after->backward_s - before.backward_s)};
}

}  // namespace

PassSeconds pass_seconds(const LayerCost& layer, double samples, std::int64_t units) {
  if (layer.times.empty() || samples <= 0) return {};
  const auto part_of = [&layer](std::int64_t count) {
    if (count == 0 || layer.units == 0) return 1.0;
    return static_cast<double>(count) / static_cast<double>(layer.units);
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
  std::sort(times.begin(), times.end(),
            [](const PassTime& a, const PassTime& b) { return a.samples < b.samples; });
  const PassSeconds found = at_samples(times, samples);
  return {found.forward * wanted / nearest, found.backward * wanted / nearest};
}

}  // namespace convoy::plan
