// A batch optimizer's vectors: what any thread may read.
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "server/state/shard_state.h"

namespace convoy::server {
namespace {

constexpr std::size_t kDotBlock =
    2048;  // elements, of which those of some vectors fit into a cache

template <typename T>
void add_products(const BatchArray& a, const BatchArray& b, std::size_t begin, std::size_t count,
                  ExactSum& sum) {
  sum.add_products(a.data<T>() + begin, b.data<T>() + begin, count);
}

}  // namespace

BatchStatus ShardState::batch() const {
  const std::shared_lock lock(mutex_);
  const BatchData& batch = data_.batch;
  BatchStatus status;
  status.element = batch.element;
  status.ordinal = batch.ordinal;
  status.open = batch.open;
  if (batch.open) {
    status.newest = batch.newest;
    status.sealed = batch.vectors.contains(gradient_of(batch.open->id));
  }
  status.bytes = batch_bytes();
  status.spare_bytes = arrays_->bytes();
  status.slices = std::any_of(data_.slices.begin(), data_.slices.end(),
                              [](const auto& slice) { return slice != nullptr; });
  for (const auto& [name, vector] : batch.vectors) {
    if (complete(*vector)) status.vectors.push_back(name);
  }
  return status;
}

std::vector<std::uint64_t> ShardState::space_sizes() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::uint64_t> sizes;
  if (!data_.definition) return sizes;
  for (const SliceDefinition& slice : data_.definition->slices) {
    sizes.push_back(slice.rule ? slice.size : 0);
  }
  return sizes;
}

BatchVectorPtr ShardState::vector(const optim::VectorName& name) const {
  const std::shared_lock lock(mutex_);
  return find_vector(name);
}

std::vector<ExactSum> ShardState::dots(std::span<const optim::VectorPair> pairs) const {
  std::vector<std::pair<BatchVectorPtr, BatchVectorPtr>> vectors;
  Element element = Element::f32;
  {
    const std::shared_lock lock(mutex_);
    for (const auto& [a, b] : pairs) vectors.emplace_back(find_vector(a), find_vector(b));
    element = data_.batch.element.value_or(Element::f32);
  }
  std::vector<ExactSum> sums(pairs.size());
  if (pairs.empty()) return sums;
  const auto& slices = vectors.front().first->slices;
  struct Stripe {
    std::size_t slice, begin, end;
  };
  std::vector<Stripe> stripes;
  for (std::size_t slice = 0; slice < slices.size(); ++slice) {
    const std::size_t size = slices[slice] ? slices[slice]->size() : 0;
    for (std::size_t at = 0; at < size; at += StripedVector::kStripe) {
      stripes.push_back({slice, at, std::min(at + StripedVector::kStripe, size)});
    }
  }
  std::mutex mutex;  // of `sums`, which are the same in any order
  in_parts(stripes.size(), [&](std::size_t first, std::size_t last) {
    std::vector<ExactSum> parts(pairs.size());
    for (std::size_t s = first; s < last; ++s) {
      // Block by block, so that a vector of several pairs comes from memory once.
      for (std::size_t at = stripes[s].begin; at < stripes[s].end; at += kDotBlock) {
        const std::size_t count = std::min(kDotBlock, stripes[s].end - at);
        for (std::size_t i = 0; i < parts.size(); ++i) {
          const BatchArray& a = *vectors[i].first->slices[stripes[s].slice];
          const BatchArray& b = *vectors[i].second->slices[stripes[s].slice];
          if (element == Element::f64) {
            add_products<double>(a, b, at, count, parts[i]);
          } else {
            add_products<float>(a, b, at, count, parts[i]);
          }
        }
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add(parts[i]);
  });
  return sums;
}

}  // namespace convoy::server
