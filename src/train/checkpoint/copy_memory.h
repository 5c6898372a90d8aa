// Memory for the copy of what a checkpoint writes.
#pragma once

#include <cstddef>

namespace convoy::train {

// Pages of its own, large ones where the kernel has them (a large copy into small ones takes longer
// to get them than to copy), and given back at once.
class CopyMemory {
 public:
  CopyMemory() = default;
  ~CopyMemory() { reset(); }
  CopyMemory(const CopyMemory&) = delete;
  CopyMemory& operator=(const CopyMemory&) = delete;

  bool allocate(std::size_t bytes);  // false: there is none
  void reset();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace convoy::train
