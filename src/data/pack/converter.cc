#include "data/pack/converter.h"

#include <algorithm>
#include <cstring>

#include "convoy/base/error.h"
#include "data/decode/decode.h"
#include "data/pack/png.h"

namespace convoy::data {
namespace {

constexpr std::size_t kLarge = std::size_t{1} << 25;  // pixels

bool is_webp(std::span<const std::byte> bytes) {
  return bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
         std::memcmp(bytes.data() + 8, "WEBP", 4) == 0;
}

Converted unchanged(std::span<const std::byte> bytes, const char* extension) {
  return {{bytes.begin(), bytes.end()}, extension, true};
}

Image interleaved(const Record& record) {
  const Shape& shape = record.shape;
  Image image{shape.height, shape.width, shape.channels, {}};
  image.pixels.resize(shape.elements());
  const auto channels = static_cast<std::size_t>(shape.channels);
  const std::size_t plane = shape.elements() / channels;
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] =
        std::to_integer<std::uint8_t>(record.bytes[i % channels * plane + i / channels]);
  }
  return image;
}

}  // namespace

Converter::Converter(const PackOptions& options, std::shared_ptr<const Vips> vips)
    : options_(options), vips_(std::move(vips)) {}

bool Converter::needs_vips(const PackOptions& options, bool pixels, const Shape& shape) {
  if (options.keep) return false;
  return !pixels ||
         (options.short_side > 0 && std::min(shape.height, shape.width) > options.short_side);
}

double Converter::scale_for(int height, int width) const {
  const int side = std::min(height, width);
  if (options_.keep || options_.short_side == 0 || side <= options_.short_side) return 1;
  return static_cast<double>(options_.short_side) / side;
}

Converted Converter::convert(const Record& record) {
  if (record.encoding == Encoding::planar_u8) return convert_pixels(record);
  std::unique_lock<std::mutex> alone;
  Image image;
  const Source source = decode(record.bytes, image, alone);
  return convert_file(record.bytes, source, image);
}

Converter::Source Converter::decode(std::span<const std::byte> file, Image& image,
                                    std::unique_lock<std::mutex>& alone) {
  const auto wait_if_large = [&](const Shape& shape) {
    const auto pixels =
        static_cast<std::size_t>(shape.height) * static_cast<std::size_t>(shape.width);
    if (pixels > kLarge) alone = std::unique_lock(large_);
  };
  if (is_jpeg(file)) {
    JpegDecoder decoder;
    wait_if_large(decoder.open(file));
    decoder.decode(0, image);
    const bool four = decoder.components() == 4;
    return {four ? Kind::jpeg_of_four_colors : Kind::jpeg, decoder.turned()};
  }
  if (is_png(file)) {
    bool turned = false;
    wait_if_large(png_shape(file, &turned));
    decode_png(file, 0, image);
    return {Kind::png, turned};
  }
  if (!is_webp(file)) {
    throw UsageError(file.empty() ? "the image is empty (0 bytes)"
                                  : "neither a JPEG, nor a PNG, nor a WebP image");
  }
  if (options_.keep) {
    throw UsageError("a WebP image, which training can't read: it can't be stored as it is");
  }
  wait_if_large(vips_->webp_shape(file));
  vips_->decode_webp(file, image);
  return {Kind::webp, false};
}

Converted Converter::convert_pixels(const Record& record) const {
  const double scale = scale_for(record.shape.height, record.shape.width);
  Image image = interleaved(record);
  if (scale < 1) {
    Image small;
    vips_->shrink(image, scale, small);
    image = std::move(small);
  }
  return {encode_png(image), "png", scale == 1};
}

Converted Converter::convert_file(std::span<const std::byte> file, const Source& source,
                                  const Image& image) const {
  const char* extension = source.kind == Kind::png ? "png" : "jpg";
  if (options_.keep) return unchanged(file, extension);
  Vips::Encoding how;
  how.scale = scale_for(image.height, image.width);
  how.quality = options_.quality;
  how.chroma = options_.chroma;
  const bool fits = how.scale == 1 && !source.turned;
  if (fits && (source.kind == Kind::jpeg || source.kind == Kind::png))
    return unchanged(file, extension);
  return {vips_->encode(image, how), "jpg", false};
}

}  // namespace convoy::data
