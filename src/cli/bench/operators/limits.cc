#include "cli/bench/operators/limits.h"

#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"

namespace convoy::cli::operators {

// Arithmetic that may be the fastest there is. LimitMeter::Impl has some: GCC warns of fields whose
// types are in an unnamed namespace where several units are compiled as one.
struct Arithmetic {
  std::string name;
  double flops = 0;
  std::function<void()> run;
};

// The fastest one of several.
struct Fastest {
  Arithmetic arithmetic;
  double flops_per_s = 0;
};

namespace {

constexpr int kLeastTries = 2;

double least_seconds(const std::function<void()>& run, double seconds) {
  run();  // allocates, and chooses kernels
  double least = std::numeric_limits<double>::infinity();
  const auto begin = Clock::now();
  for (int tries = 0; tries < kLeastTries || seconds_since(begin) < seconds; ++tries) {
    const auto start = Clock::now();
    run();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

double rate_of(const Arithmetic& one, double seconds) {
  return one.flops / least_seconds(one.run, seconds);
}

Arithmetic product_of(std::int64_t n) {
  const torch::Tensor a = torch::rand({n, n}), b = torch::rand({n, n});
  torch::Tensor c = torch::empty({n, n});
  const std::string side = std::to_string(n);
  const double cube = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  return {side + " x " + side + " x " + side, 2 * cube,
          [a, b, c]() mutable { at::mm_out(c, a, b); }};
}

struct ConvolutionShape {
  std::int64_t in, out, side, kernel;
};

// Those of residual networks: with many channels, and positions enough for all threads.
constexpr std::array<ConvolutionShape, 5> kConvolutions{
    {{64, 64, 56, 3}, {128, 128, 28, 3}, {256, 256, 14, 3}, {1024, 256, 14, 1}, {512, 512, 14, 3}}};

Arithmetic convolution_of(const ConvolutionShape& shape) {
  constexpr std::int64_t kImages = 8;
  const auto layout = torch::MemoryFormat::ChannelsLast;
  const torch::Tensor images =
      torch::rand({kImages, shape.in, shape.side, shape.side}).contiguous(layout);
  const torch::Tensor weight =
      torch::rand({shape.out, shape.in, shape.kernel, shape.kernel}).contiguous(layout);
  const std::string side = std::to_string(shape.side), kernel = std::to_string(shape.kernel);
  const std::int64_t macs =
      kImages * shape.out * shape.side * shape.side * shape.in * shape.kernel * shape.kernel;
  return {std::to_string(kImages) + "x" + std::to_string(shape.in) + "x" + side + "x" + side +
              ", " + kernel + "x" + kernel + " to " + std::to_string(shape.out),
          2 * static_cast<double>(macs), [images, weight, padding = shape.kernel / 2] {
            at::conv2d(images, weight, {}, /*stride=*/1, padding);
          }};
}

void offer(Arithmetic other, double seconds, Fastest& fastest) {
  const double rate = rate_of(other, seconds);
  if (rate <= fastest.flops_per_s) return;
  fastest.flops_per_s = rate;
  fastest.arithmetic = std::move(other);
}

Fastest fastest_product(double seconds) {
  Fastest fastest;
  constexpr std::int64_t kSmallest = 512, kLargest = 4096;
  for (std::int64_t n = kSmallest; n <= kLargest; n *= 2) {
    const auto begin = Clock::now();
    offer(product_of(n), seconds / 4, fastest);
    // The next one computes eight times as much.
    if (seconds_since(begin) > 2 * seconds) break;
  }
  return fastest;
}

Fastest fastest_convolution(double seconds) {
  Fastest fastest;
  for (const ConvolutionShape& shape : kConvolutions)
    offer(convolution_of(shape), seconds / 4, fastest);
  return fastest;
}

// Calls use(begin, end) for as many parts of an array as there are threads, in all of them.
void in_parts(std::size_t size, const std::function<void(std::size_t, std::size_t)>& use) {
  const auto threads = static_cast<std::size_t>(at::get_num_threads());
  at::parallel_for(0, static_cast<std::int64_t>(threads), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     for (auto part = static_cast<std::size_t>(first);
                          part < static_cast<std::size_t>(last); ++part)
                       use(size * part / threads, size * (part + 1) / threads);
                   });
}

}  // namespace

class LimitMeter::Impl {
 public:
  Impl(std::size_t array_bytes, double seconds) : seconds_(seconds) {
    const torch::NoGradGuard no_grad;
    product_ = fastest_product(seconds_);
    convolution_ = fastest_convolution(seconds_);
    trials_.product_flops_per_s = product_.flops_per_s;
    trials_.convolution_flops_per_s = convolution_.flops_per_s;
    const auto elements = static_cast<std::int64_t>(array_bytes / sizeof(float));
    // Zeros that are written: pages that nobody has written may all be the same one.
    for (torch::Tensor& array : arrays_) array = torch::empty({elements}).fill_(0);
  }

  MeasuredLimits measure() {
    const torch::NoGradGuard no_grad;
    MeasuredLimits found;
    found.product_flops_per_s = rate_of(product_.arithmetic, seconds_);
    found.convolution_flops_per_s = rate_of(convolution_.arithmetic, seconds_);
    // Those of the C library use the widest instructions that a processor has, and write past its
    // caches. All values stay 0.
    auto* const a = reinterpret_cast<std::byte*>(arrays_[0].data_ptr<float>());
    auto* const c = reinterpret_cast<std::byte*>(arrays_[2].data_ptr<float>());
    const auto size = static_cast<std::size_t>(arrays_[0].nbytes());
    std::atomic<bool> other{false};
    found.read_bytes_per_s = bandwidth(1, [&] {
      in_parts(size, [&](std::size_t begin, std::size_t end) {
        if (std::memchr(a + begin, 1, end - begin) != nullptr) other = true;
      });
    });
    if (other) throw std::logic_error("an array of zeros has other bytes");
    found.write_bytes_per_s = bandwidth(1, [&] {
      in_parts(size,
               [&](std::size_t begin, std::size_t end) { std::memset(c + begin, 0, end - begin); });
    });
    found.copy_bytes_per_s = bandwidth(2, [&] {
      in_parts(size, [&](std::size_t begin, std::size_t end) {
        std::memcpy(c + begin, a + begin, end - begin);
      });
    });
    found.triad_bytes_per_s =
        bandwidth(3, [&] { at::add_out(arrays_[2], arrays_[0], arrays_[1], 0.5); });
    return found;
  }

  const Fastest& product() const { return product_; }
  const Fastest& convolution() const { return convolution_; }
  const MeasuredLimits& trials() const { return trials_; }

 private:
  double bandwidth(int arrays, const std::function<void()>& run) const {
    return arrays * static_cast<double>(arrays_[0].nbytes()) / least_seconds(run, seconds_);
  }

  const double seconds_;
  Fastest product_, convolution_;
  MeasuredLimits trials_;
  std::array<torch::Tensor, 3> arrays_;
};

LimitMeter::LimitMeter(std::size_t array_bytes, double seconds)
    : impl_(std::make_unique<Impl>(array_bytes, seconds)) {}
LimitMeter::~LimitMeter() = default;
MeasuredLimits LimitMeter::measure() { return impl_->measure(); }
const std::string& LimitMeter::product() const { return impl_->product().arithmetic.name; }
const std::string& LimitMeter::convolution() const { return impl_->convolution().arithmetic.name; }
const MeasuredLimits& LimitMeter::trials() const { return impl_->trials(); }

}  // namespace convoy::cli::operators
