// What no loader can beat: libjpeg-turbo decoding the same parts of the same pictures, and nothing
// else.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "convoy/data/transform.h"

namespace convoy::cli {

struct CropToDecode {
  std::span<const std::byte> jpeg;
  data::Window window;
};

// Decodes each crop once, on so many threads, with the settings of the loader (libjpeg's defaults:
// the accurate integer transform, smooth upsampling of colors; to RGB). Rows above are skipped,
// columns cut as libjpeg can: from the block that the window begins in. Returns seconds. Throws
// Failure for a picture that can't be decoded.
double decode_crops(std::span<const CropToDecode> crops, int threads);

}  // namespace convoy::cli
