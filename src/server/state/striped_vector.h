// Values of a slice that one thread updates while others read them and old ones are kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace convoy::server {

// Arrays of equal length, one behind the other: values, then the slots of the rule's state.
class Block {
 public:
  Block(std::size_t size, std::size_t arrays)  // with any values
      : size_(size), arrays_(arrays), data_(new float[size * arrays]) {}
  Block(const Block& other);
  Block& operator=(const Block&) = delete;

  std::size_t size() const { return size_; }
  std::size_t arrays() const { return arrays_; }
  std::span<float> array(std::size_t i) { return {data_.get() + i * size_, size_}; }
  std::span<const float> array(std::size_t i) const { return {data_.get() + i * size_, size_}; }
  std::span<float> all() { return {data_.get(), size_ * arrays_}; }
  std::span<const float> all() const { return {data_.get(), size_ * arrays_}; }

 private:
  friend class BlockPtr;
  std::size_t size_;
  std::size_t arrays_;
  std::unique_ptr<float[]> data_;
  mutable std::atomic<std::uint32_t> owners_{0};
};

// Shared ownership of a block. Unlike std::shared_ptr it tells its only owner that all others have
// read for the last time, so that this one may write.
class BlockPtr {
 public:
  BlockPtr() = default;
  explicit BlockPtr(Block* block) : block_(block) { acquire(); }
  BlockPtr(const BlockPtr& other) : block_(other.block_) { acquire(); }
  BlockPtr(BlockPtr&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockPtr& operator=(BlockPtr other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockPtr() {
    if (block_ != nullptr && block_->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete block_;
    }
  }

  const Block* operator->() const { return block_; }
  const Block& operator*() const { return *block_; }
  bool operator==(const BlockPtr&) const = default;
  Block& changeable() { return *block_; }  // REQUIRES: sole()
  // Stays true while nobody copies this pointer.
  bool sole() const { return block_->owners_.load(std::memory_order_acquire) == 1; }

 private:
  void acquire() {
    if (block_ != nullptr) block_->owners_.fetch_add(1, std::memory_order_relaxed);
  }
  Block* block_ = nullptr;
};

// Blocks that won't change.
using FrozenBlocks = std::vector<BlockPtr>;

// A vector in stripes of kStripe elements, the last one shorter. One thread changes it, a stripe at
// a time; a reader waits for the update of one stripe at most, and never keeps the writer waiting:
// what somebody reads or keeps is copied when it is to change.
class StripedVector {
 public:
  static constexpr std::size_t kStripe = 65536;

  // `blocks` have kStripe elements each, the last one the rest.
  explicit StripedVector(FrozenBlocks blocks);

  std::size_t stripes() const { return stripes_.size(); }
  // Changes a stripe: calls `change` with its block.
  void change(std::size_t stripe, const std::function<void(Block&)>& change);
  // Any thread.
  BlockPtr block(std::size_t stripe) const;
  FrozenBlocks freeze() const;

 private:
  struct Stripe {
    mutable std::mutex mutex;  // of `block`; held while it changes in place
    BlockPtr block;
  };
  std::vector<Stripe> stripes_;
};

// The number of stripes of so many elements, and the size of one of them.
std::size_t stripes_of(std::uint64_t elements);
std::size_t stripe_size(std::uint64_t elements, std::size_t stripe);

}  // namespace convoy::server
