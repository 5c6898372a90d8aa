// This leads from a stored record to the numbers that a network sees: it decodes, crops, resizes,
// flips, colors and normalizes, in one pass, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/random.h"
#include "convoy/data/dataset.h"
#include "convoy/data/sample_source.h"

namespace convoy::data {

enum class Crop : std::uint8_t {
  none,            // the image as it is; all must have the size of the output
  random_resized,  // a random part (area, ratio), resized to the output (Inception's)
  random_padded,   // `padding` zero pixels on each side, then a random window of the output's size
  center,          // short side resized to `resize`, then the window in the middle
  fixed,           // short side resized to `resize`, then the window at (left, top)
  ten              // the same with ten windows: the corners and the middle, then these mirrored
};

// No side, place or padding of a picture may be larger.
inline constexpr int kMaxSide = 1 << 16;

// Has its members in the order of application. Random choices come from the stream that apply() is
// given.
struct TransformOptions {
  Crop crop = Crop::none;
  int height = 0;  // of the output; 0 with Crop::none and random_padded: of the first record
  int width = 0;
  int channels = 0;  // 1 or 3: gray and color are converted; 0: of the first record
  double min_area = 0.08, max_area = 1;             // random_resized: part of the image's area
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3;  // width / height, log-uniform
  int padding = 4;                                  // random_padded
  int resize = 256;       // center, fixed, ten: short side; 0: no resizing before
  int left = 0, top = 0;  // fixed
  bool flip = false;      // left-right, with probability 1/2; not with Crop::ten
  // Colors, of three channels; 0 leaves them. Brightness, contrast and saturation are multiplied by
  // a factor from 1 - x to 1 + x each, in random order (0 <= x <= 1). Lighting adds the principal
  // components of ImageNet's colors, each times a normal number of this deviation: AlexNet's,
  // where it is 0.1. Values are not clamped before they are normalized; bytes are.
  double brightness = 0, contrast = 0, saturation = 0;
  double lighting = 0;
  // (x / 255 - mean) / std for bytes, (x - mean) / std for floats; per channel, or one for all.
  // Not applied to output of bytes.
  std::vector<float> mean{0}, deviation{1};
  Pixel pixel = Pixel::f32;  // of the output
};

// Throws UsageError naming the field.
void validate(const TransformOptions& options);

// Gives what a file of a picture is by its first bytes: png, or jpeg for everything else.
Encoding encoding_of(std::span<const std::byte> file);

// This is a decoded image: interleaved bytes.
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;
};

// Decodes a JPEG or PNG, turned upright as its Exif says: 8 bits, gray stays 1 channel, everything
// else becomes 3 (palette, CMYK, alpha dropped, 16 bits shortened). channels 1 or 3 asks for a
// conversion, 0 takes what there is. Throws UsageError saying what is wrong with the bytes
// (truncated data counts as wrong); never reads beyond them, and refuses images beyond kMaxPixels.
inline constexpr std::size_t kMaxPixels = std::size_t{1} << 28;
void decode_image(std::span<const std::byte> bytes, int channels, Image& image);

// Resizes the window (left, top, width, height) of an image with a triangle filter that widens when
// shrinking (antialiased; what Pillow calls BILINEAR) into out_height x out_width pixels of
// `image.channels`, interleaved. Like Pillow's resize(box=window), the filter looks at the pixels
// around the window where the image has some. Throws UsageError unless the window lies inside of
// the image.
struct Window {
  int left = 0, top = 0, width = 0, height = 0;
};
void resize(const Image& image, const Window& window, int out_height, int out_width,
            std::vector<std::uint8_t>& out);

// Applies the options to one record after another. Keeps scratch memory, 64 MiB at most of each
// kind: one per thread. Files whose pictures take more than that wait in apply() for those of other
// threads, so that all of a process together take 2 GiB, or one does. Of a JPEG only what the
// output needs is decoded: damage below the crop goes unnoticed.
class Transformer {
 public:
  // `first` is the shape of the first record: what options of 0 for height, width or channels mean.
  // Throws UsageError as validate() does, and for a mean or deviation of too many numbers.
  Transformer(const TransformOptions& options, const Shape& first);
  ~Transformer();
  Transformer(Transformer&&) noexcept;
  Transformer& operator=(Transformer&&) noexcept;

  // This is the shape of one image of the output.
  Shape shape() const;
  // Images that a record becomes: 10 with Crop::ten, else 1.
  int views() const;

  // Throws what apply() would throw of a record of this encoding and shape, whatever is in it.
  void check(const Record& record);

  // Writes views() * shape().elements() numbers of type options.pixel, for which `out` must be
  // aligned. The result depends on the record, the options and the stream alone, bit for bit on
  // every machine of one kind with the same libjpeg and C library (whose logarithms and cosines
  // choose windows and colors). Throws UsageError saying what is wrong with the record
  // (not which one it is); what is in `out` then means nothing. Examples of floats can be cut,
  // mirrored and normalized, to f32 or bf16.
  void apply(const Record& record, RandomStream& random, Layout layout, void* out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Gives the shape of a record; decodes the header of a compressed one, and is that of the upright
// picture.
Shape shape_of(const Record& record);

}  // namespace convoy::data
