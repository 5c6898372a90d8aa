#include "train/checkpoint/copy_memory.h"

#include <sys/mman.h>

namespace convoy::train {

bool CopyMemory::allocate(std::size_t bytes) {
  reset();
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return true;
}

void CopyMemory::touch(const std::atomic<bool>& cancelled) {
  constexpr std::size_t kPage = 4096;
  volatile std::byte* bytes = data_;
  for (std::size_t i = 0; i < bytes_ && !cancelled; i += kPage) bytes[i] = std::byte{0};
}

void CopyMemory::reset() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace convoy::train
