// Memory for the copy of what a checkpoint writes.
#pragma once

#include <atomic>
#include <cstddef>

namespace convoy::train {

// Pages of its own, large ones where the kernel has them, given back at once. A first copy into
// them takes longer to get them than to copy.
class CopyMemory {
 public:
  CopyMemory() = default;
  ~CopyMemory() { reset(); }
  CopyMemory(const CopyMemory&) = delete;
  CopyMemory& operator=(const CopyMemory&) = delete;

  bool allocate(std::size_t bytes);  // false: there is none
  // Gets the pages, unless `cancelled` becomes true.
  void touch(const std::atomic<bool>& cancelled);
  void reset();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace convoy::train
