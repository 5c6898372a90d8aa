// This is what a parameter server holds: the vectors of a job, and which shard has which part of
// each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/optim/rule.h"

namespace convoy::server {

// This is a named vector of float32: a tensor laid out in C order, or the part of one that a
// partition of a model holds.
struct VectorSpec {
  std::string name;  // 1 to kMaxVectorName bytes, each name once in a job
  std::uint64_t elements = 0;
  // This is what a pushed gradient does to it. Without a rule the vector is a statistic (a running
  // mean, a running variance) and what is pushed is how far a replica's own has moved since it was
  // fetched. A layer-wise rule is none for a server, whose shards hold slices of a vector.
  std::optional<optim::Rule> rule;
  bool operator==(const VectorSpec&) const = default;
};

inline constexpr std::size_t kMaxVectorName = 1024;
inline constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 40;  // of one vector

// Elements begin to begin + size - 1 of vector number `vector` of the job's specs.
struct SliceSpec {
  std::uint32_t vector = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  bool operator==(const SliceSpec&) const = default;
};

// The slices of each shard, ascending; a shard's slices are called by their place in this list.
using Placement = std::vector<std::vector<SliceSpec>>;

// Divides vectors among shards (Dean et al. 2012, section 4.1: with S shards each has 1/S of the
// parameters). A function of specs and `shards` alone, the same on every machine.
//
// The vectors stand in a row, in the order of specs, and shard s has the row's elements from s/S to
// (s+1)/S of the total: so a shard has few slices, and what stands together in specs (the vectors
// of one partition of a model) is held by few shards. A cut that would divide a vector of fewer
// than 16384 elements moves to that vector's nearer end; inside of a larger one it moves down to a
// multiple of 1024 elements of it. A shard's total is even up to that; one of many shards for few
// elements can have nothing. A vector without elements has one slice, of size 0.
//
// Throws UsageError naming the vector for a bad name (empty, too long, twice), more than
// kMaxElements or a rule that is layer-wise or that optim::validate() refuses; and when there is no
// shard.
Placement place(std::span<const VectorSpec> specs, std::size_t shards);

// The specs that place() accepts; throws as it does.
void check(std::span<const VectorSpec> specs);

}  // namespace convoy::server
