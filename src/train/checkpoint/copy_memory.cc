#include "train/checkpoint/copy_memory.h"

#include <sys/mman.h>

#include <system_error>

namespace convoy::train {

CopyMemory::~CopyMemory() {
  ending_ = true;
  bytes();
  reset();
}

void CopyMemory::reserve(std::size_t bytes) {
  if (this->bytes() >= bytes) return;
  try {
    reservation_ = std::async(std::launch::async, [this, bytes] {
      if (map(bytes)) touch();
    });
  } catch (const std::system_error&) {  // no more threads: allocate() has to do
  }
}

std::size_t CopyMemory::bytes() {
  if (reservation_.valid()) reservation_.get();
  return bytes_;
}

bool CopyMemory::allocate(std::size_t bytes) { return this->bytes() >= bytes || map(bytes); }

bool CopyMemory::map(std::size_t bytes) {
  reset();
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return true;
}

void CopyMemory::touch() {
  constexpr std::size_t kPage = 4096;
  volatile std::byte* bytes = data_;
  for (std::size_t i = 0; i < bytes_ && !ending_; i += kPage) bytes[i] = std::byte{0};
}

void CopyMemory::reset() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace convoy::train
