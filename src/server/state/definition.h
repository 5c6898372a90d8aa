// What one shard holds and how pushes change it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "convoy/optim/rule.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"

namespace convoy::server {

// A slice of a vector (convoy/server/vectors.h), with what a shard has to know of it.
struct SliceDefinition {
  std::string name;            // of the vector
  std::uint64_t elements = 0;  // of the whole vector
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::optional<optim::Rule> rule;  // none: a statistic
  bool operator==(const SliceDefinition&) const = default;
};

inline constexpr std::uint64_t kUnbounded = std::numeric_limits<std::uint64_t>::max();

struct Definition {
  // The most versions that may have passed between the fetch and the push of a gradient. 0: in
  // rounds, one push of every member each (synchronous SGD). kUnbounded: Downpour.
  std::uint64_t staleness_bound = kUnbounded;
  // A gradient that is s >= 1 versions stale is applied with 1/s of the rate (Zhang et al. 2016,
  // Staleness-aware Async-SGD).
  bool scale_by_staleness = false;
  std::vector<SliceDefinition> slices;
  bool operator==(const Definition&) const = default;
};

// Bytes of memory that the slices take, their rules' state included.
std::uint64_t memory_of(const Definition& definition);

// Throws UsageError naming the slice: a vector's name, size or rule that convoy/server/vectors.h
// doesn't allow, a slice that isn't in its vector, two slices of a shard that share elements.
void check(const Definition& definition);

void write(Writer& writer, const std::optional<optim::Rule>& rule);
std::optional<optim::Rule> read_rule(Reader& reader);
void write(Writer& writer, const Definition& definition);
Definition read_definition(Reader& reader);  // checked

}  // namespace convoy::server
