// Decodes a part of a JPEG, resizes it and writes the bytes to standard output, for
// tests/golden/check_resize.py:   crop_program FILE LEFT TOP WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "convoy/base/files.h"
#include "data/decode/decode.h"
#include "data/transform/resizer.h"

int main(int argc, char** argv) try {
  using namespace convoy::data;
  if (argc != 8) return 2;
  const std::vector<std::byte> bytes = convoy::read_file(argv[1]);
  int numbers[6];
  for (int i = 0; i < 6; ++i) numbers[i] = std::stoi(argv[2 + i]);
  const Window window{numbers[0], numbers[1], numbers[2], numbers[3]};
  const int out_width = numbers[4], out_height = numbers[5];
  JpegDecoder decoder;
  const Shape picture = decoder.open(bytes);
  Resizer resizer;
  resizer.plan(picture.height, picture.width, window, out_height, out_width,
               {0, 0, out_width, out_height});
  Image image;
  const Window& source = resizer.source();
  const Window held = decoder.decode(3, source, image);
  const auto stride = static_cast<std::size_t>(image.width) * 3;
  resizer.begin(image.pixels.data() + static_cast<std::size_t>(source.top - held.top) * stride +
                    static_cast<std::size_t>(source.left - held.left) * 3,
                stride, 3);
  const auto width = static_cast<std::size_t>(out_width);
  std::vector<std::uint8_t> row(3 * width + kRowPadding);
  for (int y = 0; y < out_height; ++y) {
    join_row(resizer.row(y), resizer.plane_stride(), width, 3, row.data());
    if (std::fwrite(row.data(), 3, width, stdout) != width) return 1;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
