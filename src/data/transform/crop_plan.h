// Which part of a picture becomes the output: all random choices of a transform.
#pragma once

#include <vector>

#include "convoy/base/random.h"
#include "convoy/data/transform.h"

namespace convoy::data {

struct CropPlan {
  bool resize = false;
  // With resize: `window` of the picture becomes out_height x out_width pixels, of which `part` is
  // the output. Without: `part` of the picture is the output; it may stick out, into padding.
  // With Crop::ten the part is all of it.
  Window window;
  int out_height = 0, out_width = 0;
  Window part;
  bool flip = false;
};

// Crop::ten: the windows of the output in a picture of this size, before they are mirrored.
std::vector<Window> five_windows(int height, int width, const Shape& out);

// Plans the crop of a picture of this size to the output `out`. Throws UsageError when they don't
// go together.
CropPlan plan_crop(const TransformOptions& options, int height, int width, const Shape& out,
                   RandomStream& random);

}  // namespace convoy::data
