#include "server/transport/message_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace convoy::server::transport {
namespace {

// The allocator keeps smaller ones.
constexpr std::size_t kLarge = std::size_t{256} << 10;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;
// What a message's memory may have beside its bytes: its place in a line, and the rest of a page.
constexpr std::uint64_t kBeside = MessageMemory::kLine + kPage;

struct Freed {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

struct Memory {
  std::unique_ptr<std::byte, Freed> bytes;
  std::size_t size = 0;
};

// A message of many pages is faster in huge ones, the first time most of all. But the last huge
// page would be memory that nobody is charged for, as much as the message if that is just over one.
Memory fresh(std::size_t size) {
  const bool huge = size >= kHugePage;
  const std::size_t step = huge ? kPage : MessageMemory::kLine;
  const std::size_t whole = (size + step - 1) / step * step;
  if (whole < size) throw std::bad_alloc();
  void* address = nullptr;
  if (posix_memalign(&address, huge ? kHugePage : MessageMemory::kLine, whole) != 0) {
    throw std::bad_alloc();
  }
  std::unique_ptr<std::byte, Freed> bytes(static_cast<std::byte*>(address));
  if (huge) {
    const std::size_t in_huge = whole / kHugePage * kHugePage;
    madvise(bytes.get(), in_huge, MADV_HUGEPAGE);
    // Where the system gives them unasked.
    if (whole > in_huge) madvise(bytes.get() + in_huge, whole - in_huge, MADV_NOHUGEPAGE);
  }
  return {std::move(bytes), whole};
}

}  // namespace

struct MessageMemory::Free {
  std::mutex mutex;
  std::uint64_t most = 0;
  std::uint64_t kept = 0;
  std::vector<Memory> list;

  Memory take(std::size_t size) {
    {
      const std::lock_guard lock(mutex);
      // What was given back last may be in the cache.
      for (std::size_t i = list.size(); i-- > 0;) {
        // One that is far too large is left for its like.
        if (list[i].size < size || list[i].size / 4 > size) continue;
        Memory taken = std::move(list[i]);
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
        kept -= taken.size;
        return taken;
      }
    }
    return fresh(size);
  }

  void put(Memory memory) {
    std::vector<Memory> dropped;  // ends without the lock
    const std::lock_guard lock(mutex);
    if (memory.size > most) return;  // all others would go, and then this one
    kept += memory.size;
    list.push_back(std::move(memory));
    // The oldest go: sizes change when another model is trained, and not otherwise.
    while (kept > most) {
      kept -= list.front().size;
      dropped.push_back(std::move(list.front()));
      list.erase(list.begin());
    }
  }
};

MessageMemory::MessageMemory(std::uint64_t bytes) : free_(std::make_shared<Free>()) { keep(bytes); }

void MessageMemory::keep(std::uint64_t bytes) {
  const std::lock_guard lock(free_->mutex);
  free_->most = bytes + kBeside;
}

std::uint64_t MessageMemory::kept() const {
  const std::lock_guard lock(free_->mutex);
  return free_->kept;
}

MessageMemory::Run MessageMemory::take(std::size_t size, std::size_t at) {
  struct Owner {
    Owner(Memory memory, std::weak_ptr<Free> kept)
        : memory(std::move(memory)), kept(std::move(kept)) {}
    ~Owner() {
      const auto free = memory.size >= kLarge ? kept.lock() : nullptr;
      if (free) free->put(std::move(memory));
    }
    Memory memory;
    std::weak_ptr<Free> kept;
  };
  at %= kLine;
  if (size > SIZE_MAX - at) throw std::bad_alloc();
  const std::size_t all = size + at;
  const auto owner =
      std::make_shared<const Owner>(all < kLarge ? fresh(all) : free_->take(all), free_);
  return {{owner->memory.bytes.get() + at, size}, owner};
}

}  // namespace convoy::server::transport
