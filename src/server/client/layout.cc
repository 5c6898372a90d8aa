#include "server/client/layout.h"

#include <optional>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/server/vectors.h"

namespace convoy::server::client {

Layout::Layout(const JobPlan& plan, JobDescription description)
    : description_(std::move(description)),
      staleness_bound_(plan.staleness_bound),
      scale_by_staleness_(plan.scale_by_staleness),
      of_vector_(description_.vectors.size()),
      of_shard_(plan.shards) {
  const Placement placement = place(description_.vectors, plan.shards);
  for (std::uint32_t shard = 0; shard < placement.size(); ++shard) {
    for (std::uint32_t slice = 0; slice < placement[shard].size(); ++slice) {
      const SliceSpec& spec = placement[shard][slice];
      const Place place{shard, slice, spec.vector, spec.begin, spec.size, slices_++};
      of_shard_[shard].push_back(place);
      of_vector_[spec.vector].push_back(place);
    }
  }
}

Definition Layout::definition(std::uint32_t shard) const {
  Definition definition;
  definition.staleness_bound = staleness_bound_;
  definition.scale_by_staleness = scale_by_staleness_;
  for (const Place& place : of_shard_[shard]) {
    const VectorSpec& vector = description_.vectors[place.vector];
    definition.slices.push_back(
        {vector.name, vector.elements, place.begin, place.size, vector.rule});
  }
  return definition;
}

template <typename View>
void Layout::check_all(std::span<const View> views) const {
  std::vector<bool> seen(description_.vectors.size());
  for (const View& view : views) {
    if (view.vector >= seen.size()) {
      throw UsageError("there is no vector " + std::to_string(view.vector) + "; the job has " +
                       std::to_string(seen.size()));
    }
    const VectorSpec& vector = description_.vectors[view.vector];
    if (view.values.size() != vector.elements) {
      throw UsageError(std::to_string(view.values.size()) + " values for vector '" + vector.name +
                       "'; it has " + std::to_string(vector.elements) + " elements");
    }
    if (seen[view.vector]) {
      throw UsageError("vector '" + vector.name + "' is there twice; give it once");
    }
    seen[view.vector] = true;
  }
}

void Layout::check(std::span<const ReadView> views) const { check_all(views); }
void Layout::check(std::span<const WriteView> views) const { check_all(views); }

std::vector<std::uint32_t> Layout::shards_of(
    std::optional<std::span<const std::uint32_t>> vectors) const {
  std::vector<bool> has(shards());
  const auto add = [&](std::uint32_t vector) {
    for (const Place& place : of_vector_[vector]) has[place.shard] = true;
  };
  for (const std::uint32_t vector : vectors.value_or(std::span<const std::uint32_t>{})) {
    if (vector >= of_vector_.size()) {
      throw UsageError("there is no vector " + std::to_string(vector) + "; the job has " +
                       std::to_string(of_vector_.size()));
    }
    add(vector);
  }
  if (!vectors) {
    for (std::uint32_t vector = 0; vector < of_vector_.size(); ++vector) add(vector);
  }
  std::vector<std::uint32_t> shards;
  for (std::uint32_t shard = 0; shard < has.size(); ++shard) {
    if (has[shard]) shards.push_back(shard);
  }
  return shards;
}

}  // namespace convoy::server::client
