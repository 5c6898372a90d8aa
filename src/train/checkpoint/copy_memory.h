// Memory for the copy of what a checkpoint writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <future>

namespace convoy::train {

// Pages of its own, large ones where the kernel has them, given back at once. A first copy into
// them takes longer to get them than to copy. One thread at a time, but for its own.
class CopyMemory {
 public:
  CopyMemory() = default;
  ~CopyMemory();
  CopyMemory(const CopyMemory&) = delete;
  CopyMemory& operator=(const CopyMemory&) = delete;

  // Gets at least so many bytes, pages and all, on a thread; it keeps what is enough already.
  void reserve(std::size_t bytes);
  // Waits for reserve().
  std::size_t bytes();
  bool allocate(std::size_t bytes);  // false: there is none
  std::byte* data() const { return data_; }

 private:
  bool map(std::size_t bytes);
  void touch();
  void reset();

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::atomic<bool> ending_{false};
  std::future<void> reservation_;  // has the rest while it is valid
};

}  // namespace convoy::train
