// The last step of a transform: rows of bytes become the pixels of the output, normalized or as
// they are, in the layout and of the type that is asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "convoy/data/transform.h"

namespace convoy::data {

// What color augmentation does to a pixel of bytes: 3 rows of 3 factors and a constant.
using ColorMap = std::array<float, 12>;

// Not thread-safe. One picture after another: begin(), then its rows in any order.
class Emitter {
 public:
  // `shape` of the output; one number in mean or deviation stands for all channels.
  Emitter(const Shape& shape, const std::vector<float>& mean, const std::vector<float>& deviation,
          Pixel pixel);

  // `color` may be null; it must stay until the last row.
  void begin(Layout layout, const ColorMap* color, std::byte* out);
  // Whether row() takes planes; else interleaved pixels. With one channel both are the same.
  bool planar() const { return layout_ == Layout::planar || color_ != nullptr; }
  // Takes one row of shape.width pixels; planes are `stride` bytes apart.
  void row(int y, const std::uint8_t* pixels, std::size_t stride);
  // Takes one row of floats, interleaved or planes as for bytes, with planes `stride` elements
  // apart. Not with colors, nor for bytes as output.
  void row(int y, const float* pixels, std::size_t stride);

 private:
  void put(const float* values, std::size_t count, std::size_t at);
  void colored(int y, const std::uint8_t* planes, std::size_t stride);

  Shape shape_;
  Pixel pixel_;
  // out = value * scale + bias for bytes: per channel, and repeated for a row of either layout.
  std::vector<float> scale_, bias_;
  std::vector<float> row_scale_, row_bias_;
  std::vector<float> plane_scale_, plane_bias_;
  std::vector<float> mean_, deviation_;  // for floats, per channel

  Layout layout_ = Layout::planar;
  const ColorMap* color_ = nullptr;
  std::byte* out_ = nullptr;
  std::vector<float> values_;  // one row of the output
};

}  // namespace convoy::data
