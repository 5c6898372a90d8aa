#include "train/memory/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace convoy::train {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::size_t most_cached(const LargeBlockOptions& options, std::size_t usable) {
  if (options.max_cached > 0) return options.max_cached;
  return usable / 4 / static_cast<std::size_t>(std::max(1, options.processes));
}

BlockCache::BlockCache(const LargeBlockOptions& options) : options_(options) {}

BlockCache::~BlockCache() { release_cached(); }

std::size_t BlockCache::rounded(std::size_t bytes) {
  const std::size_t unit = std::max(kPage, std::bit_floor(std::max(bytes, kPage)) / 8);
  return bytes > SIZE_MAX - unit ? SIZE_MAX / kPage * kPage : round_up(bytes, unit);
}

void* BlockCache::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  const std::lock_guard lock(mutex_);
  void* block = nullptr;
  if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
    const Age::iterator cached = found->second.back();
    found->second.pop_back();
    block = cached->block;
    age_.erase(cached);
    stats_.cached_bytes -= size;
    ++stats_.reused;
  } else {
    block = map(size);
    if (block == nullptr) {
      evict_until(0);
      block = map(size);
    }
    if (block == nullptr) return nullptr;
    ++stats_.mapped;
  }
  live_.emplace(block, size);
  stats_.live_bytes += size;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes + stats_.cached_bytes);
  return block;
}

bool BlockCache::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(block);
  if (found == live_.end()) return false;
  const std::size_t size = found->second;
  live_.erase(found);
  stats_.live_bytes -= size;
  if (size > options_.max_cached) {
    munmap(block, size);
    ++stats_.unmapped;
    return true;
  }
  evict_until(options_.max_cached - size);
  age_.push_back({block, size});
  free_[size].push_back(std::prev(age_.end()));
  stats_.cached_bytes += size;
  return true;
}

void BlockCache::release_cached() {
  const std::lock_guard lock(mutex_);
  evict_until(0);
}

LargeBlockStats BlockCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

// The kernel only forms huge pages inside aligned 2 MiB ranges, so a block that can hold one starts
// on such a boundary; the surplus around it is unmapped at once.
void* BlockCache::map(std::size_t size) {
  const bool huge = options_.huge_pages && size >= kHugePage;
  const std::size_t surplus = huge ? kHugePage - kPage : 0;
  if (size > SIZE_MAX - surplus) return nullptr;
  void* base =
      mmap(nullptr, size + surplus, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  if (!huge) return base;
  auto* start = static_cast<char*>(base);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::size_t before = round_up(address, kHugePage) - address;
  if (before > 0) munmap(start, before);
  if (surplus > before) munmap(start + before + size, surplus - before);
  madvise(start + before, size, MADV_HUGEPAGE);
  return start + before;
}

void BlockCache::evict_until(std::size_t cached_bytes) {
  while (stats_.cached_bytes > cached_bytes) {
    const Cached oldest = age_.front();
    // The oldest of all is the oldest of its size, and each list is ordered by age.
    auto& same_size = free_[oldest.size];
    same_size.erase(same_size.begin());
    age_.pop_front();
    munmap(oldest.block, oldest.size);
    stats_.cached_bytes -= oldest.size;
    ++stats_.unmapped;
  }
}

}  // namespace convoy::train
