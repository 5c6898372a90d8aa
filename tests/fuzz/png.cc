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
  try {
    Image image;
    if (png_shape(bytes).elements() <= 3 * kPixels) decode_png(bytes, 1, image);
  } catch (const convoy::UsageError&) {
    // Refused, as it should be.
  }
  return 0;
}
