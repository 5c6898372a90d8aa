// Pixels somewhere in memory, and rows of a window of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "convoy/data/transform.h"

namespace convoy::data {

// Distances in elements.
struct View {
  const std::byte* data = nullptr;
  std::ptrdiff_t channel = 0, row = 0, column = 0;
  int height = 0, width = 0, channels = 0;
};

// Row y of a window, mirrored if asked, as interleaved pixels or as planes of window.width. What
// lies outside of the view is 0.
template <typename Element>
void take_row(const View& view, const Window& window, int y, bool mirror, bool planes,
              Element* out) {
  constexpr auto kSize = static_cast<std::ptrdiff_t>(sizeof(Element));
  const int row = window.top + y;
  const int channels = view.channels;
  const auto count = static_cast<std::size_t>(window.width) * static_cast<std::size_t>(channels);
  const bool inside = row >= 0 && row < view.height;
  const int begin = inside ? std::clamp(-window.left, 0, window.width) : window.width;
  const int end = inside ? std::clamp(view.width - window.left, begin, window.width) : begin;
  if (begin > 0 || end < window.width) std::fill_n(out, count, Element{});
  if (begin == end) return;
  const std::byte* const from =
      view.data + (row * view.row + (window.left + begin) * view.column) * kSize;
  if (!mirror && !planes && view.channel == 1 && view.column == channels) {
    std::memcpy(out + static_cast<std::ptrdiff_t>(begin) * channels, from,
                static_cast<std::size_t>(end - begin) * static_cast<std::size_t>(channels) *
                    sizeof(Element));
    return;
  }
  const std::ptrdiff_t step = planes ? 1 : channels;
  for (int c = 0; c < channels; ++c) {
    const std::byte* source = from + c * view.channel * kSize;
    Element* to = out + (planes ? static_cast<std::ptrdiff_t>(c) * window.width : c) +
                  step * (mirror ? window.width - 1 - begin : begin);
    if (step == 1 && !mirror && view.column == 1) {
      std::memcpy(to, source, static_cast<std::size_t>(end - begin) * sizeof(Element));
      continue;
    }
    const std::ptrdiff_t advance = mirror ? -step : step;
    for (int x = begin; x < end; ++x, to += advance, source += view.column * kSize) {
      std::memcpy(to, source, sizeof *to);  // records lie anywhere
    }
  }
}

// What of a window lies in a picture of this size. A window all in the padding needs no pixel; one
// is simpler than none.
Window inside(const Window& window, const Shape& picture);

// A window of bytes with its channels converted, interleaved.
void convert(const View& view, const Window& window, int channels, Image& image);

// Gives the mean of each channel over a window of three channels; padding counts as black.
std::array<double, 3> mean_of(const View& view, const Window& window);

}  // namespace convoy::data
