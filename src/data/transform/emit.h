// The last step of a transform: cut, mirror, normalize, and lay out as floats.
#pragma once

#include <cstddef>
#include <cstring>

#include "convoy/data/transform.h"

namespace convoy::data {

// Pixels somewhere in memory; distances in elements. A channel distance of 0 repeats one channel.
struct View {
  const std::byte* data = nullptr;
  std::ptrdiff_t channel = 0, row = 0, column = 0;
  int height = 0, width = 0;
};

// Writes part.width x part.height pixels of `channels`, taken from (part.left, part.top) on. What
// lies outside of the view is padding. convert(channel, value) gives the float.
template <typename Element, typename Convert>
void emit(const View& view, const Window& part, int channels, bool flip, Layout layout,
          const Convert& convert, float* out) {
  const auto load = [](const std::byte* at) {
    Element value;
    std::memcpy(&value, at, sizeof value);  // records lie anywhere
    return value;
  };
  const bool planar = layout == Layout::planar;
  const std::ptrdiff_t out_column = planar ? 1 : channels;
  const std::ptrdiff_t out_row = out_column * part.width;
  const std::ptrdiff_t out_channel = planar ? out_row * part.height : 1;
  for (int c = 0; c < channels; ++c) {
    const float padding = convert(c, Element{0});
    for (int y = 0; y < part.height; ++y) {
      float* to = out + c * out_channel + y * out_row;
      std::ptrdiff_t step = out_column;
      if (flip) {
        to += (part.width - 1) * out_column;
        step = -out_column;
      }
      const int row = part.top + y;
      const bool inside = row >= 0 && row < view.height;
      int x = 0;
      const int begin = inside ? std::min(std::max(0, -part.left), part.width) : part.width;
      const int end =
          inside ? std::max(std::min(part.width, view.width - part.left), begin) : begin;
      for (; x < begin; ++x, to += step) *to = padding;
      constexpr auto kSize = static_cast<std::ptrdiff_t>(sizeof(Element));
      const std::ptrdiff_t first = c * view.channel + row * view.row +
                                   static_cast<std::ptrdiff_t>(part.left + x) * view.column;
      if (begin < end) {
        const std::byte* from = view.data + first * kSize;
        const std::ptrdiff_t advance = view.column * kSize;
        for (; x < end; ++x, to += step, from += advance) *to = convert(c, load(from));
      }
      for (; x < part.width; ++x, to += step) *to = padding;
    }
  }
}

}  // namespace convoy::data
