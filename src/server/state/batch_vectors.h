// Vectors of a batch optimizer, as a shard holds them: its slices of each, which never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "convoy/optim/space.h"
#include "convoy/server/batch.h"

namespace convoy::server {

std::size_t size_of(Element element);

// Memory of arrays that are gone, for the next ones of the same size: fresh pages would cost as
// much as what is computed into them. Threads: any.
class ArrayPool {
 public:
  using Memory = std::unique_ptr<std::byte[]>;
  Memory take(std::size_t bytes);
  void give(std::size_t bytes, Memory memory);
  std::uint64_t bytes() const;  // that wait for somebody

 private:
  static constexpr std::size_t kKept = 3;  // of one size
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<Memory>> free_;
};

// Numbers of one type.
class BatchArray {
 public:
  // With any values. `pool` (null: none) gets the memory back.
  BatchArray(Element element, std::size_t size, std::shared_ptr<ArrayPool> pool = nullptr);
  ~BatchArray();
  BatchArray(const BatchArray&) = delete;
  BatchArray& operator=(const BatchArray&) = delete;

  Element element() const { return element_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {memory_.get(), size_ * size_of(element_)}; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_ * size_of(element_)}; }
  // REQUIRES: T is the type of the elements.
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(memory_.get());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(memory_.get());
  }

 private:
  Element element_;
  std::size_t size_;
  std::shared_ptr<ArrayPool> pool_;
  ArrayPool::Memory memory_;
};
using BatchArrayPtr = std::shared_ptr<const BatchArray>;

// The slices of a vector, as in the shard's definition. Null: of a statistic, or not given yet.
struct BatchVector {
  // Checksum of the command that made it, without its number; kPut and kSealed of those that came
  // with values.
  std::uint64_t made = 0;
  std::vector<BatchArrayPtr> slices;
};
using BatchVectorPtr = std::shared_ptr<const BatchVector>;
// Computes elements begin to begin + count - 1 of a slice of a vector.
using BatchElements =
    std::function<void(std::size_t slice, std::size_t begin, std::size_t count, BatchArray& array)>;
inline constexpr std::uint64_t kPut = 0;
inline constexpr std::uint64_t kSealed = 1;

// The evaluation whose groups a shard takes.
struct OpenEvaluation {
  EvaluationId id;
  std::uint32_t portions = 0;
  std::uint64_t index = 0;  // of the command that opened it
  bool operator==(const OpenEvaluation&) const = default;
};

struct BatchData {
  std::optional<Element> element;  // none: the shard has no space
  std::uint64_t ordinal = 0;       // of the last numbered command that was done
  std::optional<OpenEvaluation> open;
  EvaluationId newest;  // that was ever opened; if any was
  std::map<optim::VectorName, BatchVectorPtr> vectors;
};

inline optim::VectorName weights_of(const EvaluationId& id) {
  return {optim::VectorRole::weights, id.iteration, id.evaluation};
}
inline optim::VectorName gradient_of(const EvaluationId& id) {
  return {optim::VectorRole::gradient, id.iteration, id.evaluation};
}

}  // namespace convoy::server
