#include "data/transform/view.h"

#include <vector>

#include "data/decode/decode.h"

namespace convoy::data {

Window inside(const Window& window, const Shape& picture) {
  const int right = std::min(window.left + window.width, picture.width);
  const int bottom = std::min(window.top + window.height, picture.height);
  Window result;
  result.left = std::clamp(window.left, 0, picture.width - 1);
  result.top = std::clamp(window.top, 0, picture.height - 1);
  result.width = std::max(1, right - result.left);
  result.height = std::max(1, bottom - result.top);
  return result;
}

void convert(const View& view, const Window& window, int channels, Image& image) {
  const auto to_channels = static_cast<std::size_t>(channels);
  const auto from_channels = static_cast<std::size_t>(view.channels);
  const auto width = static_cast<std::size_t>(window.width);
  image.height = window.height;
  image.width = window.width;
  image.channels = channels;
  image.pixels.resize(width * static_cast<std::size_t>(window.height) * to_channels);
  std::vector<std::uint8_t> row(width * from_channels);
  std::uint8_t* to = image.pixels.data();
  for (int y = 0; y < window.height; ++y) {
    take_row(view, window, y, false, false, row.data());
    if (channels == view.channels) {
      to = std::copy(row.begin(), row.end(), to);
      continue;
    }
    for (const std::uint8_t* from = row.data(); from < row.data() + row.size();
         from += from_channels) {
      if (view.channels == 1) {
        to = std::fill_n(to, to_channels, from[0]);
      } else {
        *to++ = luma(from[0], from[1], from[2]);
      }
    }
  }
}

std::array<double, 3> mean_of(const View& view, const Window& window) {
  std::array<std::uint64_t, 3> sums{};
  const auto width = static_cast<std::size_t>(window.width);
  std::vector<std::uint8_t> row(width * 3);
  for (int y = 0; y < window.height; ++y) {
    take_row(view, window, y, false, false, row.data());
    for (std::size_t i = 0; i < row.size(); i += 3) {
      for (std::size_t c = 0; c < 3; ++c) sums[c] += row[i + c];
    }
  }
  const double pixels = static_cast<double>(width) * window.height;
  std::array<double, 3> means;
  for (std::size_t c = 0; c < 3; ++c) means[c] = static_cast<double>(sums[c]) / pixels;
  return means;
}

}  // namespace convoy::data
