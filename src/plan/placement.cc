#include "convoy/plan/placement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::plan {

Network network_of(const Machine& machine) {
  const Communication& c = machine.communication;
  if (c.bandwidth_bytes_per_s <= 0) {
    throw UsageError(
        "the machine has no communication.bandwidth_bytes_per_s, which what travels between layers "
        "depends on; give it there (with gradient_bytes), or --bandwidth");
  }
  return {.bandwidth_bytes_per_s = c.bandwidth_bytes_per_s, .latency_s = c.latency_s};
}

std::string scheme_of(const Placement& placement) {
  if (placement.senders == 0) return "a";
  if (placement.senders == placement.partitions) return "c";
  return placement.senders == 1 ? "b" : "bc";
}

std::string name_of(const Placement& placement, int world) {
  if (placement.kind == Parallelism::data) return "sync";
  if (placement.kind == Parallelism::model) return "model parallelism";
  const std::string scheme = scheme_of(placement);
  return "hybrid " + scheme + (scheme == "bc" ? " " + std::to_string(placement.senders) : "") +
         (placement.passes > 0 ? " in " + std::to_string(placement.passes) : "") + ", " +
         std::to_string(world / placement.partitions) + " x " +
         std::to_string(placement.partitions);
}

std::vector<int> group_sizes(const TrainingCost& cost, int world) {
  std::vector<int> sizes;
  if (cost.head >= cost.layers.size()) return sizes;
  const auto fits = [](const LayerCost& layer, int partitions) {
    if (!layer.parts.empty() && layer.parts.size() != static_cast<std::size_t>(partitions))
      return false;
    if (std::find(layer.parts.begin(), layer.parts.end(), 0) != layer.parts.end()) return false;
    return layer.units >= partitions;
  };
  for (int partitions = world; partitions > 1; --partitions) {
    if (world % partitions != 0) continue;
    if (std::all_of(cost.layers.begin() + static_cast<std::ptrdiff_t>(cost.head), cost.layers.end(),
                    [&](const LayerCost& layer) { return fits(layer, partitions); }))
      sizes.push_back(partitions);
  }
  return sizes;
}

std::vector<Placement> placements(const TrainingCost& cost, int world, bool variable_batch) {
  std::vector<Placement> all{{Parallelism::data}};
  if (world == 1) return all;
  all.push_back({Parallelism::model});
  for (const int partitions : group_sizes(cost, world)) {
    std::vector<int> senders{0, 1};
    for (int m = 2; m < partitions; m *= 2) senders.push_back(m);
    senders.push_back(partitions);
    if (variable_batch) senders.erase(senders.begin());
    for (const int m : senders) all.push_back({Parallelism::hybrid, partitions, m, variable_batch});
    // Other numbers of passes with a variable batch would be another training.
    for (int passes = 2; passes < partitions && !variable_batch; passes *= 2)
      all.push_back({Parallelism::hybrid, partitions, partitions, false, passes});
  }
  return all;
}

std::size_t best_placement(const std::vector<StepForecast>& forecasts, double memory_bytes) {
  std::size_t best = forecasts.size();
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    const StepForecast& one = forecasts[i];
    if (one.placement.kind == Parallelism::model) continue;
    if (memory_bytes > 0 && one.memory_bytes > memory_bytes) continue;
    if (best == forecasts.size() || one.step_s < forecasts[best].step_s) best = i;
  }
  if (best < forecasts.size()) return best;
  double least = std::numeric_limits<double>::infinity();
  for (const StepForecast& one : forecasts) {
    if (one.placement.kind != Parallelism::model) least = std::min(least, one.memory_bytes);
  }
  const auto text = [](double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); };
  throw UsageError("no placement takes as little memory as " + text(memory_bytes) +
                   " on each rank" + (std::isfinite(least) ? ", the least is " + text(least) : "") +
                   ": give it more, more ranks, or fewer samples");
}

}  // namespace convoy::plan
