// Networks that are made for images of one shape.
#pragma once

#include <algorithm>
#include <string>

#include "convoy/base/error.h"
#include "convoy/model/layers.h"

namespace convoy::model {

// Throws UsageError unless the image has channels, height and width, and there are classes.
inline void check_one_shape(const std::string& network, const Shape& image, std::int64_t classes) {
  if (image.size() != 3 || *std::min_element(image.begin(), image.end()) < 1) {
    throw UsageError(network + " can't be made for images of " + text_of(image) +
                     ": these have to be channels, height and width");
  }
  if (classes < 1) {
    throw UsageError(network + " can't tell " + std::to_string(classes) +
                     " classes: there has to be one at least");
  }
}

}  // namespace convoy::model
