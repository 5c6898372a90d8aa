#include "data/decode/decode.h"

#include <cstring>
#include <string>

#include "convoy/base/error.h"

namespace convoy::data {
namespace {

constexpr unsigned char kJpegMagic[] = {0xff, 0xd8, 0xff};
constexpr unsigned char kPngMagic[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

template <std::size_t N>
bool begins_with(std::span<const std::byte> bytes, const unsigned char (&magic)[N]) {
  return bytes.size() >= N && std::memcmp(bytes.data(), magic, N) == 0;
}

[[noreturn]] void refuse_format(std::span<const std::byte> bytes) {
  if (bytes.empty()) throw UsageError("the image is empty (0 bytes)");
  throw UsageError("neither a JPEG nor a PNG image (" + std::to_string(bytes.size()) + " bytes)");
}

}  // namespace

bool is_jpeg(std::span<const std::byte> bytes) { return begins_with(bytes, kJpegMagic); }
bool is_png(std::span<const std::byte> bytes) { return begins_with(bytes, kPngMagic); }

Encoding encoding_of(std::span<const std::byte> file) {
  return is_png(file) ? Encoding::png : Encoding::jpeg;
}

void check_size(const char* what, std::size_t height, std::size_t width) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (height == 0 || width == 0) throw UsageError(std::string(what) + ": " + size);
  if (height > kMaxPixels / width) {
    throw UsageError(std::string(what) + ": " + size + "; at most " + std::to_string(kMaxPixels) +
                     " pixels are decoded");
  }
}

void decode_image(std::span<const std::byte> bytes, int channels, Image& image) {
  if (channels != 0 && channels != 1 && channels != 3) {
    throw UsageError("images can be decoded to 1 or 3 channels, not " + std::to_string(channels));
  }
  if (is_jpeg(bytes)) {
    JpegDecoder decoder;
    decoder.open(bytes);
    decoder.decode(channels, image);
  } else if (is_png(bytes)) {
    decode_png(bytes, channels, image);
  } else {
    refuse_format(bytes);
  }
}

Shape shape_of(const Record& record) {
  if (record.encoding != Encoding::jpeg && record.encoding != Encoding::png) return record.shape;
  if (is_jpeg(record.bytes)) return JpegDecoder().open(record.bytes);
  if (is_png(record.bytes)) return png_shape(record.bytes);
  refuse_format(record.bytes);
}

}  // namespace convoy::data
