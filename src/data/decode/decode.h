// The decoders behind decode_image(), with what only the transform needs: reading a header first,
// and decoding a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "convoy/data/dataset.h"
#include "convoy/data/transform.h"

namespace convoy::data {

bool is_jpeg(std::span<const std::byte> bytes);
bool is_png(std::span<const std::byte> bytes);

// Throws UsageError for sizes of 0 or beyond kMaxPixels. `what` is "JPEG" or "PNG".
void check_size(const char* what, std::size_t height, std::size_t width);

// Decodes one JPEG after another. Not thread-safe. Every function throws UsageError for bytes that
// are not a whole, sound JPEG. Sizes, windows and pixels are those of the upright picture, turned
// as Exif says.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header; the bytes must stay until decode() is done. Channels: 1 for gray, else 3.
  Shape open(std::span<const std::byte> bytes);
  // What open() returned.
  Shape size() const;
  // Whether it is stored otherwise than upright.
  bool turned() const;
  // Where a window of the upright picture lies in the picture as it is stored.
  Window stored(const Window& window) const;
  // As the file has them: 1, 3, or 4 (CMYK, YCCK).
  int components() const;
  // The whole picture. channels: 1, 3, or 0 for what there is. Once per open().
  void decode(int channels, Image& image);
  // A part of it. The image holds the window and somewhat more: as it is stored, the window's rows,
  // and of these the columns from the block that the window begins in to somewhat behind its end.
  // Returns where in the picture that lies. Inside of the window pixels are those of the whole
  // picture, bit for bit. What is stored below is not read: damage there goes unnoticed. The window
  // must lie inside.
  Window decode(int channels, const Window& window, Image& image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Gives the shape of the upright picture, as above; `turned` becomes what JpegDecoder::turned()
// says, and may be null.
Shape png_shape(std::span<const std::byte> bytes, bool* turned = nullptr);
void decode_png(std::span<const std::byte> bytes, int channels, Image& image);

// What Pillow calls L: ITU-R 601 luma.
inline std::uint8_t luma(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return static_cast<std::uint8_t>((19595u * red + 38470u * green + 7471u * blue + 32768u) >> 16);
}

}  // namespace convoy::data
