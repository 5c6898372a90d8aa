#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "data/decode/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::data;
  // Larger ones only cost time.
  constexpr std::size_t kPixels = 1 << 20;
  const auto bytes = std::as_bytes(std::span(data, size));
  JpegDecoder decoder;
  Image image;
  for (const bool whole : {true, false}) {
    try {
      const Shape shape = decoder.open(bytes);
      if (shape.elements() > 3 * kPixels) return 0;
      if (whole) {
        decoder.decode(0, image);
      } else {
        const Window middle{shape.width / 3, shape.height / 3, std::max(1, shape.width / 3),
                            std::max(1, shape.height / 3)};
        decoder.decode(1, middle, image);
      }
    } catch (const convoy::UsageError&) {
      // Refused, as it should be.
    }
  }
  return 0;
}
