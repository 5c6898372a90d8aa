// What this machine reaches at most: arithmetic of matrix products and convolutions of LibTorch,
// and traffic with memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>

namespace convoy::cli::operators {

// One look at all of them, with the threads that LibTorch has.
struct MeasuredLimits {
  double product_flops_per_s = 0;
  double convolution_flops_per_s = 0;
  // Bytes that are read or written by these in a second: of a copy both, of a triad (c = a + k b)
  // all three. What a processor reads of its own accord before it writes is not counted.
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  double copy_bytes_per_s = 0;
  double triad_bytes_per_s = 0;

  double flops_per_s() const { return std::max(product_flops_per_s, convolution_flops_per_s); }
  double bytes_per_s() const {
    return std::max({read_bytes_per_s, write_bytes_per_s, copy_bytes_per_s, triad_bytes_per_s});
  }
};

// Takes of each figure the larger one.
inline MeasuredLimits larger(const MeasuredLimits& a, const MeasuredLimits& b) {
  return {std::max(a.product_flops_per_s, b.product_flops_per_s),
          std::max(a.convolution_flops_per_s, b.convolution_flops_per_s),
          std::max(a.read_bytes_per_s, b.read_bytes_per_s),
          std::max(a.write_bytes_per_s, b.write_bytes_per_s),
          std::max(a.copy_bytes_per_s, b.copy_bytes_per_s),
          std::max(a.triad_bytes_per_s, b.triad_bytes_per_s)};
}

class LimitMeter {
 public:
  // Tries products and convolutions of several shapes in float32, to measure the fastest ones from
  // then on; keeps three arrays of `array_bytes`, which have to be much larger than the caches.
  // Each figure is the best of as many tries as `seconds` has room for, at least two.
  LimitMeter(std::size_t array_bytes, double seconds);
  ~LimitMeter();
  LimitMeter(const LimitMeter&) = delete;
  LimitMeter& operator=(const LimitMeter&) = delete;

  MeasuredLimits measure();
  // Says which were the fastest: "2048 x 2048 x 2048", "8x128x28x28, 3x3 to 128".
  const std::string& product() const;
  const std::string& convolution() const;
  // Gives what the trials reached, of products and convolutions alone.
  const MeasuredLimits& trials() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::cli::operators
