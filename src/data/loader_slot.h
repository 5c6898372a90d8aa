// The memory that batches are made in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <vector>

namespace convoy::data {

// Where SIMD kernels like their memory to begin.
constexpr std::align_val_t kAlignment{64};
struct FreePixels {
  void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
};
using Pixels = std::unique_ptr<std::byte[], FreePixels>;
inline Pixels make_pixels(std::size_t bytes) {
  return Pixels(static_cast<std::byte*>(::operator new[](bytes, kAlignment)));
}

// One batch in the making, or ready. Its memory stays; what it holds changes.
struct Slot {
  Pixels images;
  std::vector<std::size_t> samples;
  std::vector<std::int64_t> labels;
  std::vector<char> bad;  // left out, by place in the batch; not vector<bool>: threads write beside
                          // each other

  std::uint64_t epoch = 0;
  std::size_t consumed = 0;  // of the epoch's order, once this batch is used
  bool ends_epoch = false;   // no batch: the null that next() returns between epochs
  std::size_t skipped = 0;   // bad records, known once `left` is 0
  std::size_t taken = 0;     // samples that workers have taken
  std::size_t left = 0;      // samples that are not finished
  std::exception_ptr error;  // of the first sample, by place, that has one
  std::size_t error_place = 0;
};

}  // namespace convoy::data
