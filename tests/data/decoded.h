// An image from the bytes of its file.
#pragma once

#include "data/decode/decode.h"
#include "tests/data/support.h"

namespace convoy::data {

inline Image decoded(const Bytes& bytes, int channels = 0) {
  Image image;
  decode_image(bytes, channels, image);
  return image;
}

}  // namespace convoy::data
