#include "data/store/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::data {

std::size_t Region::page() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

Region::Region(std::uint64_t size) : size_(size) {
  if (size == 0) return;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Failure("memory for " + format_bytes(size) + " of records: " + std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(memory);
  // Huge pages would cost memory ahead of need where a region is filled in several places.
  madvise(data_, size_, MADV_NOHUGEPAGE);
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, size_);
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void Region::release(std::size_t first, std::size_t last) {
  const std::uint64_t begin = first * page();
  const std::uint64_t end = std::min<std::uint64_t>(last * page(), size_);
  if (begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace convoy::data
