// Address space for records.
#pragma once

#include <cstddef>
#include <cstdint>

namespace convoy::data {

// `size` bytes of addresses. A page costs memory from when it is first written until it is
// released, so two regions that are filled and emptied in step need little more than one. Not
// thread-safe.
class Region {
 public:
  Region() = default;
  // Throws Failure when there are not even addresses.
  explicit Region(std::uint64_t size);
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }

  // Gives the pages first .. last-1 back; they read as zeros.
  void release(std::size_t first, std::size_t last);
  static std::size_t page();  // bytes

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace convoy::data
