// What partitions send each other.
#include <algorithm>

#include "convoy/model/partition.h"

namespace convoy::model {
namespace {

// Elements that both have, of one tensor.
double common(const Slice& a, const Slice& b) {
  double elements = 1;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    const std::int64_t begin = std::max(a.begin[d], b.begin[d]);
    const std::int64_t end = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]);
    elements *= static_cast<double>(std::max<std::int64_t>(end - begin, 0));
  }
  return elements;
}

}  // namespace

std::vector<PartitionTraffic> traffic_of(const PartitionPlan& plan) {
  const double share = 1.0 / plan.partitions;  // of the samples
  std::vector<PartitionTraffic> all;
  for (std::size_t v = 0; v < plan.values.size(); ++v) {
    const PartitionedValue& value = plan.values[v];
    const bool home = !value.whole && !value.input &&
                      std::find(plan.outputs.begin(), plan.outputs.end(), v) != plan.outputs.end();
    if (!value.exchanged && !home) continue;
    for (int from = 0; from < plan.partitions; ++from) {
      const Slice& tile = value.tiles[static_cast<std::size_t>(from)];
      for (int to = 0; to < plan.partitions; ++to) {
        if (to == from) continue;
        const Slice& needed = value.needed[static_cast<std::size_t>(to)];
        const double read = value.exchanged ? common(tile, needed) * (value.input ? share : 1) : 0;
        if (read > 0) all.push_back({v, from, to, read});
        const double scores = home ? static_cast<double>(tile.elements()) * share : 0;
        if (scores > 0) all.push_back({v, from, to, scores, true});
      }
    }
  }
  return all;
}

}  // namespace convoy::model
