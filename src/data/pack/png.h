// Pixels as a PNG.
#pragma once

#include <cstddef>
#include <vector>

#include "convoy/data/transform.h"

namespace convoy::data {

// Lossless. 1 or 3 channels. The same pixels give the same bytes with the same zlib and libpng.
std::vector<std::byte> encode_png(const Image& image);

}  // namespace convoy::data
