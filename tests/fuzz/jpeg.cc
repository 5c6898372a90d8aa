#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "data/decode/decode.h"

namespace {

using namespace convoy::data;

// Larger ones only cost time.
constexpr std::size_t kPixels = 1 << 20;

void decode(JpegDecoder& decoder, std::span<const std::byte> bytes, convoy::RandomStream& random,
            bool whole) {
  const Shape shape = decoder.open(bytes);
  if (shape.elements() > 3 * kPixels) return;
  Image image;
  if (whole) {
    decoder.decode(0, image);
    return;
  }
  const auto below = [&random](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
  };
  Window window{below(shape.width), below(shape.height), 0, 0};
  window.width = 1 + below(shape.width - window.left);
  window.height = 1 + below(shape.height - window.top);
  decoder.decode(below(2) == 0 ? 1 : 3, window, image);
}

// Decodes a part and makes pixels of it, as a loader does.
void transform(std::span<const std::byte> bytes, convoy::RandomStream& random, Crop crop) {
  const Record record{bytes, Encoding::jpeg, {}, 0};
  const Shape shape = shape_of(record);
  if (shape.elements() > 3 * kPixels || shape.height > 64 * shape.width ||
      shape.width > 64 * shape.height) {
    return;
  }
  TransformOptions options;
  options.crop = crop;
  options.height = options.width = 16;
  options.channels = 3;
  options.resize = 24;
  options.contrast = crop == Crop::random_padded ? 0.4 : 0;
  options.lighting = crop == Crop::center ? 0.1 : 0;
  options.pixel = crop == Crop::ten ? Pixel::u8 : Pixel::f32;
  Transformer transformer(options, shape);
  std::vector<float> out(transformer.shape().elements() * 10);
  transformer.apply(record, random, crop == Crop::center ? Layout::planar : Layout::channels_last,
                    out.data());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  // Which parts, the bytes decide.
  convoy::RandomStream random(size, size > 0 ? data[size / 2] : 0);
  JpegDecoder decoder;
  const auto attempt = [](const auto& call) {
    try {
      call();
    } catch (const convoy::UsageError&) {
      // Refused, as it should be.
    }
  };
  attempt([&] { decode(decoder, bytes, random, true); });
  for (int part = 0; part < 3; ++part) attempt([&] { decode(decoder, bytes, random, false); });
  for (const Crop crop : {Crop::random_resized, Crop::random_padded, Crop::center, Crop::ten}) {
    attempt([&] { transform(bytes, random, crop); });
  }
  return 0;
}
