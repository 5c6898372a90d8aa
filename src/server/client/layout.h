// Where the vectors of a job are: which shard has which part of each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "convoy/server/client.h"
#include "convoy/server/job.h"
#include "server/state/definition.h"

namespace convoy::server::client {

// A slice: a part of a vector on a shard.
struct Place {
  std::uint32_t shard = 0;
  std::uint32_t slice = 0;   // as the shard calls it
  std::uint32_t vector = 0;  // of the description
  std::uint64_t begin = 0;   // in the vector
  std::uint64_t size = 0;
  std::size_t number = 0;  // of all slices of the job
};

class Layout {
 public:
  Layout(const JobPlan& plan, JobDescription description);  // throws UsageError as place() does

  const JobDescription& description() const { return description_; }
  std::size_t shards() const { return of_shard_.size(); }
  std::size_t slices() const { return slices_; }
  const std::vector<Place>& of_vector(std::uint32_t vector) const { return of_vector_[vector]; }
  const std::vector<Place>& of_shard(std::uint32_t shard) const { return of_shard_[shard]; }
  // What the shard has to be told before anything else.
  Definition definition(std::uint32_t shard) const;

  // Throw UsageError unless each is a vector of the description, whole, and there once.
  void check(std::span<const ReadView> views) const;
  void check(std::span<const WriteView> views) const;
  // The shards that have parts of these vectors, ascending; of all vectors without a list.
  std::vector<std::uint32_t> shards_of(std::optional<std::span<const std::uint32_t>> vectors) const;

 private:
  template <typename View>
  void check_all(std::span<const View> views) const;

  JobDescription description_;
  std::uint64_t staleness_bound_;
  bool scale_by_staleness_;
  std::size_t slices_ = 0;
  std::vector<std::vector<Place>> of_vector_;
  std::vector<std::vector<Place>> of_shard_;
};

}  // namespace convoy::server::client
