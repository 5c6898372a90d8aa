#include "server/state/batch_vectors.h"

#include <utility>

namespace convoy::server {

std::string to_string(const EvaluationId& id) {
  return std::to_string(id.iteration) + "." + std::to_string(id.evaluation);
}

std::size_t size_of(Element element) {
  return element == Element::f64 ? sizeof(double) : sizeof(float);
}

ArrayPool::Memory ArrayPool::take(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = free_.find(bytes);
    if (found != free_.end()) {
      Memory memory = std::move(found->second.back());
      found->second.pop_back();
      if (found->second.empty()) free_.erase(found);
      return memory;
    }
  }
  return Memory(new std::byte[bytes]);
}

void ArrayPool::give(std::size_t bytes, Memory memory) {
  const std::lock_guard lock(mutex_);
  std::vector<Memory>& same = free_[bytes];
  if (same.size() < kKept) same.push_back(std::move(memory));
}

std::uint64_t ArrayPool::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [size, free] : free_) bytes += size * free.size();
  return bytes;
}

BatchArray::BatchArray(Element element, std::size_t size, std::shared_ptr<ArrayPool> pool)
    : element_(element), size_(size), pool_(std::move(pool)) {
  const std::size_t bytes = size * size_of(element);
  memory_ = pool_ ? pool_->take(bytes) : ArrayPool::Memory(new std::byte[bytes]);
}

BatchArray::~BatchArray() {
  if (pool_) pool_->give(size_ * size_of(element_), std::move(memory_));
}

}  // namespace convoy::server
