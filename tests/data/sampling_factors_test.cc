// Pictures with every way of storing colors coarsely, made here since image programs write few.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

// After <cstdio>, which it needs without saying so.
#include <jpeglib.h>

#include "convoy/base/random.h"
#include "data/decode/decode.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

struct Factors {
  const char* name;
  int horizontal, vertical;  // of luma, where both of chroma are 1
  bool progressive = false;
};

Bytes compressed(const Factors& factors, int height, int width) {
  RandomStream random(3);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width * 3));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i / 7 + random.below(60));
  }
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  info.comp_info[0].h_samp_factor = factors.horizontal;
  info.comp_info[0].v_samp_factor = factors.vertical;
  if (factors.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    JSAMPROW row = &pixels[static_cast<std::size_t>(y * width * 3)];
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  Bytes result(bytes, bytes + size);
  std::free(memory);
  return result;
}

TEST(SamplingFactors, APartHasTheSamePixelsAsTheWhole) {
  RandomStream random(8);
  for (const Factors& factors :
       {Factors{"4:4:4", 1, 1}, Factors{"4:2:2", 2, 1}, Factors{"4:2:0", 2, 2},
        Factors{"4:1:1", 4, 1}, Factors{"4:4:0", 1, 2}, Factors{"4:1:0", 4, 2},
        Factors{"progressive 4:2:0", 2, 2, true}, Factors{"progressive 4:4:0", 1, 2, true}}) {
    for (const auto& [height, width] : {std::pair{97, 131}, std::pair{64, 128}, std::pair{9, 33}}) {
      const Bytes bytes = compressed(factors, height, width);
      Image whole;
      decode_image(bytes, 0, whole);
      JpegDecoder decoder;
      for (int i = 0; i < 80; ++i) {
        const auto below = [&](int bound) {
          return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
        };
        Window window;
        // Every fourth one begins with a block: there the neighbor is in another one.
        window.left = i % 4 == 0 ? below(width) / 16 * 16 : below(width);
        window.top = i % 4 == 0 ? below(height) / 16 * 16 : below(height);
        window.width = 1 + below(width - window.left);
        window.height = 1 + below(height - window.top);
        Image part;
        decoder.open(bytes);
        const Window held = decoder.decode(0, window, part);
        for (int y = 0; y < window.height; ++y) {
          const auto* expected =
              &whole.pixels[static_cast<std::size_t>(((window.top + y) * width + window.left) * 3)];
          const auto* actual = &part.pixels[static_cast<std::size_t>(
              (y * held.width + window.left - held.left) * 3)];
          ASSERT_TRUE(std::equal(expected, expected + window.width * 3, actual))
              << factors.name << ", " << width << " x " << height << ": row " << y << " of "
              << window.width << " x " << window.height << " at (" << window.left << ", "
              << window.top << ")";
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::data
