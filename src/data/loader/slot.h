// The memory that batches are made in.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace convoy::data {

struct FreePixels {
  std::shared_ptr<std::byte> owner = nullptr;  // of memory that somebody else has made
  void operator()(std::byte* memory) const {
    if (!owner) std::free(memory);
  }
};
using Pixels = std::unique_ptr<std::byte[], FreePixels>;

inline Pixels pixels_of(std::shared_ptr<std::byte> memory) {
  std::byte* const bytes = memory.get();
  return Pixels(bytes, FreePixels{std::move(memory)});
}

// Begins where SIMD kernels like it. Large batches lie in large pages, if the system has some:
// workers write through a batch once and never come back, so every small page would be looked up
// anew.
inline Pixels make_pixels(std::size_t bytes) {
  constexpr std::size_t kVector = 64, kLargePage = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= kLargePage ? kLargePage : kVector;
  const std::size_t size = (bytes / alignment + 1) * alignment;
  void* const memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  // Without them it works as well.
  if (alignment == kLargePage) madvise(memory, size, MADV_HUGEPAGE);
  return Pixels(static_cast<std::byte*>(memory));
}

// One batch in the making, or ready. Its memory stays; what it holds changes.
struct Slot {
  Pixels images;
  std::vector<std::vector<std::byte>> records;  // instead, by place; at least as many as samples
  std::vector<std::size_t> samples;
  std::vector<std::int64_t> labels;
  std::vector<std::vector<std::int64_t>> label_lists;  // by place, as records: all of a sample's
  std::vector<char> bad;  // left out, by place in the batch; not vector<bool>: threads write beside
                          // each other

  std::uint64_t number = 0;  // Batch::number
  std::uint64_t epoch = 0;
  std::size_t consumed = 0;      // of the epoch's order, once this batch is used
  bool ends_epoch = false;       // no batch: the null that next() returns between epochs
  bool last = false;             // of its epoch
  std::size_t batches_left = 0;  // in the epoch, after this one, or in the next one
  std::size_t skipped = 0;       // bad records, known once `left` is 0
  std::size_t taken = 0;         // samples that workers have taken
  std::size_t left = 0;          // samples that are not finished
  std::exception_ptr error;      // of the first sample, by place, that has one
  std::size_t error_place = 0;
};

}  // namespace convoy::data
