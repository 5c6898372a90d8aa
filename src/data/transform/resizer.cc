#include "data/transform/resizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

// Four floats that GCC and Clang keep in one register on every machine.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 4;

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f) + 0.5f);
}

}  // namespace

void Resizer::Axis::plan(int input, int begin, int size, int output, int part_begin,
                         int part_size) {
  const double scale = static_cast<double>(size) / output;
  const double widening = std::max(scale, 1.0);  // when shrinking, the filter covers all pixels
  taps = 2 * static_cast<int>(std::ceil(widening)) + 1;
  first.resize(static_cast<std::size_t>(part_size));
  count.resize(static_cast<std::size_t>(part_size));
  weights.assign(static_cast<std::size_t>(part_size) * static_cast<std::size_t>(taps), 0.0f);
  for (int i = 0; i < part_size; ++i) {
    const double center = begin + (part_begin + i + 0.5) * scale;
    const int low = std::max(0, static_cast<int>(center - widening + 0.5));
    const int high = std::min(input, static_cast<int>(center + widening + 0.5));
    const auto at = static_cast<std::size_t>(i);
    float* weight = &weights[at * static_cast<std::size_t>(taps)];
    const int used = std::min(high - low, taps);
    double total = 0;
    for (int x = 0; x < used; ++x) {
      const double distance = std::abs((low + x + 0.5 - center) / widening);
      total += std::max(0.0, 1 - distance);
    }
    for (int x = 0; x < used; ++x) {
      const double distance = std::abs((low + x + 0.5 - center) / widening);
      weight[x] = static_cast<float>(std::max(0.0, 1 - distance) / total);
    }
    first[at] = low;
    count[at] = used;
  }
}

int Resizer::Axis::used_begin() const { return first.front(); }

int Resizer::Axis::used_end() const {
  int end = 0;
  for (std::size_t i = 0; i < first.size(); ++i) end = std::max(end, first[i] + count[i]);
  return end;
}

void Resizer::plan(int picture_height, int picture_width, const Window& window, int out_height,
                   int out_width, const Window& part) {
  rows_.plan(picture_height, window.top, window.height, out_height, part.top, part.height);
  columns_.plan(picture_width, window.left, window.width, out_width, part.left, part.width);
  source_.top = rows_.used_begin();
  source_.left = columns_.used_begin();
  source_.height = rows_.used_end() - source_.top;
  source_.width = columns_.used_end() - source_.left;
}

template <int kChannels>
void Resizer::mix_columns(const float* row, std::uint8_t* out) const {
  const auto taps = static_cast<std::size_t>(columns_.taps);
  for (std::size_t x = 0; x < columns_.first.size(); ++x) {
    const float* weight = &columns_.weights[x * taps];
    const float* from = row + (columns_.first[x] - source_.left) * kChannels;
    const int count = columns_.count[x];
    if constexpr (kChannels == 3) {
      // The fourth lane is the next pixel's first channel, or padding; it is thrown away.
      Lanes sum = {};
      for (int i = 0; i < count; ++i) {
        Lanes pixel;
        std::memcpy(&pixel, from + i * kChannels, sizeof pixel);
        sum += weight[i] * pixel;
      }
      for (int c = 0; c < kChannels; ++c) *out++ = to_byte(sum[c]);
    } else {
      float sum = 0;
      for (int i = 0; i < count; ++i) sum += weight[i] * from[i];
      *out++ = to_byte(sum);
    }
  }
}

// Rows are mixed first: contiguous memory, and only as many rows go on as the result has.
void Resizer::run(const std::uint8_t* pixels, std::size_t stride, int channels,
                  std::vector<std::uint8_t>& out) {
  const std::size_t in_row = static_cast<std::size_t>(source_.width * channels);
  const std::size_t out_row = columns_.first.size() * static_cast<std::size_t>(channels);
  row_.resize(in_row + kLanes);
  out.resize(out_row * rows_.first.size());
  const auto taps = static_cast<std::size_t>(rows_.taps);
  for (std::size_t y = 0; y < rows_.first.size(); ++y) {
    float* const sum = row_.data();
    for (int i = 0; i < rows_.count[y]; ++i) {
      const float weight = rows_.weights[y * taps + static_cast<std::size_t>(i)];
      const std::uint8_t* const from =
          pixels + static_cast<std::size_t>(rows_.first[y] + i - source_.top) * stride;
      if (i == 0) {
        for (std::size_t x = 0; x < in_row; ++x) sum[x] = weight * static_cast<float>(from[x]);
      } else {
        for (std::size_t x = 0; x < in_row; ++x) sum[x] += weight * static_cast<float>(from[x]);
      }
    }
    std::uint8_t* const to = out.data() + y * out_row;
    channels == 3 ? mix_columns<3>(sum, to) : mix_columns<1>(sum, to);
  }
}

void resize(const Image& image, const Window& window, int out_height, int out_width,
            std::vector<std::uint8_t>& out) {
  if (image.channels != 1 && image.channels != 3) {
    throw UsageError("resize: an image of " + std::to_string(image.channels) +
                     " channels; 1 or 3 can be resized");
  }
  if (window.left < 0 || window.top < 0 || window.width < 1 || window.height < 1 ||
      window.width > image.width - window.left || window.height > image.height - window.top) {
    throw UsageError("resize: the window " + std::to_string(window.width) + " x " +
                     std::to_string(window.height) + " at (" + std::to_string(window.left) + ", " +
                     std::to_string(window.top) + ") is not inside the image of " +
                     std::to_string(image.width) + " x " + std::to_string(image.height) +
                     " pixels");
  }
  if (out_height < 1 || out_width < 1) {
    throw UsageError("resize: an output of " + std::to_string(out_width) + " x " +
                     std::to_string(out_height) + " pixels; it must have at least one");
  }
  Resizer resizer;
  resizer.plan(image.height, image.width, window, out_height, out_width,
               {0, 0, out_width, out_height});
  const std::size_t stride = static_cast<std::size_t>(image.width * image.channels);
  const Window& source = resizer.source();
  resizer.run(image.pixels.data() + static_cast<std::size_t>(source.top) * stride +
                  static_cast<std::size_t>(source.left * image.channels),
              stride, image.channels, out);
}

}  // namespace convoy::data
