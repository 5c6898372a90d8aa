#include "data/decode/orientation.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace convoy::data {
namespace {

constexpr std::size_t kEntry = 12;  // bytes of one tag
constexpr unsigned kOrientationTag = 0x0112, kShort = 3;

// Numbers of either byte order, 0 beyond the end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool open() {
    if (bytes_.size() < 8) return false;
    big_ = bytes_[0] == std::byte{'M'};
    const auto order = static_cast<std::byte>(big_ ? 'M' : 'I');
    return bytes_[0] == order && bytes_[1] == order && number(2, 2) == 42;
  }
  std::uint32_t number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_[at + (big_ ? i : size - 1 - i)]);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool big_ = false;
};

}  // namespace

Orientation read_orientation(std::span<const std::byte> exif) {
  constexpr char kHead[] = {'E', 'x', 'i', 'f', 0, 0};
  if (exif.size() >= sizeof kHead && std::memcmp(exif.data(), kHead, sizeof kHead) == 0)
    exif = exif.subspan(sizeof kHead);
  Tiff tiff(exif);
  if (!tiff.open()) return {};
  const std::size_t directory = tiff.number(4, 4);
  const std::size_t count = tiff.number(directory, 2);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = directory + 2 + i * kEntry;
    if (tiff.number(at, 2) != kOrientationTag) continue;
    const bool sound = tiff.number(at + 2, 2) == kShort && tiff.number(at + 4, 4) == 1;
    switch (sound ? tiff.number(at + 8, 2) : 0) {
      case 2:
        return {false, true, false};
      case 3:
        return {false, true, true};
      case 4:
        return {false, false, true};
      case 5:
        return {true, false, false};
      case 6:
        return {true, false, true};
      case 7:
        return {true, true, true};
      case 8:
        return {true, true, false};
      default:
        return {};
    }
  }
  return {};
}

Shape upright_shape(const Orientation& orientation, const Shape& stored) {
  if (!orientation.swapped) return stored;
  return {stored.channels, stored.width, stored.height};
}

Window stored_window(const Orientation& orientation, const Shape& stored, const Window& upright) {
  Window w = upright;
  if (orientation.swapped) w = {w.top, w.left, w.height, w.width};
  if (orientation.from_right) w.left = stored.width - w.left - w.width;
  if (orientation.from_below) w.top = stored.height - w.top - w.height;
  return w;
}

Window upright_window(const Orientation& orientation, const Shape& stored, const Window& window) {
  Window w = window;
  if (orientation.from_right) w.left = stored.width - w.left - w.width;
  if (orientation.from_below) w.top = stored.height - w.top - w.height;
  if (orientation.swapped) w = {w.top, w.left, w.height, w.width};
  return w;
}

void turn(const Orientation& orientation, Image& image, std::vector<std::uint8_t>& scratch) {
  if (orientation.upright()) return;
  const std::ptrdiff_t channels = image.channels;
  const std::ptrdiff_t width = image.width, height = image.height;
  // In the stored picture: from one pixel to the next in a row of the upright one, and from one row
  // to the next.
  const std::ptrdiff_t across = orientation.from_right ? -channels : channels;
  const std::ptrdiff_t down = (orientation.from_below ? -width : width) * channels;
  const std::ptrdiff_t column = orientation.swapped ? down : across;
  const std::ptrdiff_t row = orientation.swapped ? across : down;
  if (orientation.swapped) std::swap(image.width, image.height);
  scratch.resize(image.pixels.size());
  std::ptrdiff_t first = (orientation.from_right ? (width - 1) * channels : 0) +
                         (orientation.from_below ? (height - 1) * width * channels : 0);
  std::uint8_t* to = scratch.data();
  for (int y = 0; y < image.height; ++y, first += row) {
    std::ptrdiff_t from = first;
    for (int x = 0; x < image.width; ++x, from += column, to += channels)
      std::copy_n(image.pixels.data() + from, channels, to);
  }
  std::swap(image.pixels, scratch);
}

}  // namespace convoy::data
