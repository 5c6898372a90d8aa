// Photographs that were taken sideways: Exif says how to turn them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/data/transform.h"

namespace convoy::data {

// How stored rows and columns become those of the upright picture: the pixel of the upright one at
// (x, y) is the stored one at (x, y), or at (y, x) if they are swapped, counted from the right
// where it is mirrored left to right, from below where it is mirrored top to bottom.
struct Orientation {
  bool swapped = false;
  bool from_right = false;
  bool from_below = false;

  bool upright() const { return !swapped && !from_right && !from_below; }
};

// What the orientation tag in the first directory of this TIFF structure says, which is what an
// Exif segment holds, with or without "Exif\0\0" in front. Upright where there is none, or it makes
// no sense.
Orientation read_orientation(std::span<const std::byte> exif);

// Sizes and windows of the stored picture, of those of the upright one, and the other way round.
// `stored` is the stored picture's size.
Shape upright_shape(const Orientation& orientation, const Shape& stored);
Window stored_window(const Orientation& orientation, const Shape& stored, const Window& upright);
Window upright_window(const Orientation& orientation, const Shape& stored, const Window& window);

// Makes stored pixels, or those of a window of them, upright. `scratch` is memory to use.
void turn(const Orientation& orientation, Image& image, std::vector<std::uint8_t>& scratch);

}  // namespace convoy::data
