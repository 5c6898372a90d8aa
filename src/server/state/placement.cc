#include <algorithm>
#include <string>
#include <unordered_set>

#include "convoy/base/error.h"
#include "convoy/server/vectors.h"

namespace convoy::server {
namespace {

constexpr std::uint64_t kLeastDivided = 16384;  // elements
constexpr std::uint64_t kCutMultiple = 1024;

// `total * shard / shards` for numbers whose product may not fit.
std::uint64_t share(std::uint64_t total, std::uint64_t shard, std::uint64_t shards) {
  return total / shards * shard + total % shards * shard / shards;
}

// Where in a vector that stands at `begin` a cut at `cut`, inside of it, goes.
std::uint64_t moved(std::uint64_t begin, std::uint64_t elements, std::uint64_t cut) {
  const std::uint64_t inside = cut - begin;
  if (elements >= kLeastDivided) return begin + inside / kCutMultiple * kCutMultiple;
  return inside * 2 <= elements ? begin : begin + elements;
}

}  // namespace

void check(std::span<const VectorSpec> specs) {
  std::unordered_set<std::string_view> names;
  for (const VectorSpec& spec : specs) {
    if (spec.name.empty() || spec.name.size() > kMaxVectorName) {
      throw UsageError("the name of a vector has " + std::to_string(spec.name.size()) +
                       " bytes; it has to have 1 to " + std::to_string(kMaxVectorName));
    }
    if (!names.insert(spec.name).second) {
      throw UsageError("two vectors are called '" + spec.name + "'; each needs its own name");
    }
    if (spec.elements > kMaxElements) {
      throw UsageError("vector '" + spec.name + "' has " + std::to_string(spec.elements) +
                       " elements; at most " + std::to_string(kMaxElements) + " are accepted");
    }
    if (!spec.rule) continue;
    if (optim::is_layerwise(*spec.rule)) {
      throw UsageError("vector '" + spec.name + "': " + std::string(optim::name(*spec.rule)) +
                       " goes by norms of whole parameters, of which a shard has slices; choose a "
                       "rule of single elements");
    }
    try {
      optim::validate(*spec.rule);
    } catch (const UsageError& error) {
      throw UsageError("vector '" + spec.name + "': " + error.what());
    }
  }
}

Placement place(std::span<const VectorSpec> specs, std::size_t shards) {
  check(specs);
  if (shards == 0) throw UsageError("0 shards can hold no vectors; name 1 or more");
  std::uint64_t total = 0;
  for (const VectorSpec& spec : specs) total += spec.elements;
  Placement placement(shards);
  std::size_t shard = 0;
  std::uint64_t begin = 0;
  for (std::uint32_t vector = 0; vector < specs.size(); ++vector) {
    const std::uint64_t end = begin + specs[vector].elements;
    std::uint64_t at = begin;
    // Every cut that falls inside of this vector, in order; those that move to its begin or end
    // divide nothing, but what follows belongs to the next shard.
    for (; shard + 1 < shards; ++shard) {
      const std::uint64_t cut = share(total, shard + 1, shards);
      // A cut behind the last vector would leave the last ones without elements to nobody.
      if (cut >= end) break;
      const std::uint64_t to = cut <= begin ? begin : moved(begin, end - begin, cut);
      if (to >= end) break;
      if (to > at) placement[shard].push_back({vector, at - begin, to - at});
      at = std::max(at, to);
    }
    if (at < end || begin == end) placement[shard].push_back({vector, at - begin, end - at});
    begin = end;
  }
  return placement;
}

}  // namespace convoy::server
