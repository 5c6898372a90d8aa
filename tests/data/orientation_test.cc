// Pictures that Exif says to turn come upright out of everything that decodes.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "convoy/base/random.h"
#include "convoy/data/transform.h"
#include "data/decode/decode.h"
#include "data/decode/orientation.h"
#include "tests/data/decoded.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

// The table of the Exif standard: where stored row 0 and column 0 are to be seen.
constexpr std::string_view kRowSide[] = {"",     "top",   "top",   "bottom", "bottom",
                                         "left", "right", "right", "left"};
constexpr std::string_view kColumnSide[] = {"",    "left", "right",  "right", "left",
                                            "top", "top",  "bottom", "bottom"};

Image as_seen(const Image& stored, int orientation) {
  const auto o = static_cast<std::size_t>(orientation);
  Image seen = stored;
  if (orientation > 4) std::swap(seen.width, seen.height);
  for (int r = 0; r < stored.height; ++r) {
    for (int c = 0; c < stored.width; ++c) {
      int x = 0, y = 0;
      if (kRowSide[o] == "top") y = r;
      if (kRowSide[o] == "bottom") y = stored.height - 1 - r;
      if (kRowSide[o] == "left") x = r;
      if (kRowSide[o] == "right") x = stored.height - 1 - r;
      if (kColumnSide[o] == "left") x = c;
      if (kColumnSide[o] == "right") x = stored.width - 1 - c;
      if (kColumnSide[o] == "top") y = c;
      if (kColumnSide[o] == "bottom") y = stored.width - 1 - c;
      for (int k = 0; k < stored.channels; ++k) {
        seen.pixels[static_cast<std::size_t>((y * seen.width + x) * seen.channels + k)] =
            stored.pixels[static_cast<std::size_t>((r * stored.width + c) * stored.channels + k)];
      }
    }
  }
  return seen;
}

void expect_same(const Image& image, const Image& expected) {
  EXPECT_EQ(image.height, expected.height);
  EXPECT_EQ(image.width, expected.width);
  EXPECT_EQ(image.channels, expected.channels);
  EXPECT_TRUE(image.pixels == expected.pixels);
}

// A PNG with this Exif in a chunk in front of the pixels.
Bytes with_chunk(const Bytes& png, Bytes exif) {
  constexpr std::size_t kBehindHeader = 8 + 25;
  const auto size = exif.size();
  const Bytes name = to_bytes({'e', 'X', 'I', 'f'});
  exif.insert(exif.begin(), name.begin(), name.end());
  const auto crc = static_cast<std::uint32_t>(::crc32(
      0, reinterpret_cast<const unsigned char*>(exif.data()), static_cast<uInt>(exif.size())));
  const auto number = [](std::size_t n) {
    return to_bytes({static_cast<int>(n >> 24 & 255), static_cast<int>(n >> 16 & 255),
                     static_cast<int>(n >> 8 & 255), static_cast<int>(n & 255)});
  };
  Bytes result(png.begin(), png.begin() + kBehindHeader);
  for (const Bytes& part : {number(size), exif, number(crc)})
    result.insert(result.end(), part.begin(), part.end());
  result.insert(result.end(), png.begin() + kBehindHeader, png.end());
  return result;
}

// In the other byte order than that of turned().
Bytes little_endian(int orientation) {
  return to_bytes({'I', 'I', 42, 0, 8, 0,           0, 0, 1, 0, 0x12, 1, 3,
                   0,   1,   0,  0, 0, orientation, 0, 0, 0, 0, 0,    0, 0});
}

TEST(Orientation, WholePicturesAreTurned) {
  const Bytes jpeg = read_file(fixture("large420.jpg")), png = read_file(fixture("pattern.png"));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    for (const int channels : {0, 1, 3}) {
      const Bytes lying = turned(jpeg, orientation);
      expect_same(decoded(lying, channels), as_seen(decoded(jpeg, channels), orientation));
      const Bytes chunk = with_chunk(png, little_endian(orientation));
      expect_same(decoded(chunk, channels), as_seen(decoded(png, channels), orientation));
    }
    const Image seen = as_seen(decoded(jpeg), orientation);
    EXPECT_EQ(shape_of({turned(jpeg, orientation), Encoding::jpeg, {}, 0}),
              (Shape{3, seen.height, seen.width}));
    const Image small = as_seen(decoded(png), orientation);
    EXPECT_EQ(shape_of({with_chunk(png, little_endian(orientation)), Encoding::png, {}, 0}),
              (Shape{small.channels, small.height, small.width}));
  }
}

TEST(Orientation, APartOfAJpegIsThePartOfTheTurnedWhole) {
  RandomStream random(5);
  const Bytes jpeg = read_file(fixture("large420.jpg"));
  JpegDecoder decoder;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes lying = turned(jpeg, orientation);
    const Image whole = as_seen(decoded(jpeg), orientation);
    const auto below = [&random](int n) {
      return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
    };
    for (int i = 0; i < 40; ++i) {
      Window window{below(whole.width), below(whole.height), 0, 0};
      window.width = 1 + below(whole.width - window.left);
      window.height = 1 + below(whole.height - window.top);
      Image part;
      decoder.open(lying);
      const Window held = decoder.decode(0, window, part);
      ASSERT_EQ(part.width, held.width);
      ASSERT_EQ(part.height, held.height);
      for (int y = 0; y < window.height; ++y) {
        const auto at = [&](const Image& image, int left, int top) {
          return image.pixels.begin() +
                 (static_cast<std::ptrdiff_t>(top + y) * image.width + left) * 3;
        };
        ASSERT_TRUE(std::equal(at(whole, window.left, window.top),
                               at(whole, window.left + window.width, window.top),
                               at(part, window.left - held.left, window.top - held.top)))
            << orientation;
      }
    }
  }
}

TEST(Orientation, EveryCropIsThatOfTheTurnedPicture) {
  const Bytes jpeg = read_file(fixture("large420.jpg"));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes lying = turned(jpeg, orientation);
    const Image seen = as_seen(decoded(jpeg), orientation);
    const Shape shape{3, seen.height, seen.width};
    const Record file{lying, Encoding::jpeg, {}, 0};
    const Record pixels{std::as_bytes(std::span(seen.pixels)), Encoding::interleaved_u8, shape, 0};
    for (const Crop crop : {Crop::none, Crop::random_resized, Crop::random_padded, Crop::center,
                            Crop::fixed, Crop::ten}) {
      SCOPED_TRACE(std::to_string(orientation) + ", crop " +
                   std::to_string(static_cast<int>(crop)));
      TransformOptions options;
      options.crop = crop;
      options.height = crop == Crop::none ? seen.height : 48;
      options.width = crop == Crop::none ? seen.width : 40;
      options.resize = 64;
      options.flip = crop != Crop::ten;
      options.pixel = Pixel::u8;
      const auto applied = [&](const Record& record) {
        Transformer transformer(options, shape_of(record));
        std::vector<std::uint8_t> out(transformer.shape().elements() *
                                      static_cast<std::size_t>(transformer.views()));
        RandomStream random(3);
        transformer.apply(record, random, Layout::channels_last, out.data());
        return out;
      };
      EXPECT_TRUE(applied(file) == applied(pixels));
    }
  }
}

TEST(Orientation, AFolderOfImagesGivesUprightOnes) {
  const Scratch folder;
  std::filesystem::create_directories(folder.path("a"));
  write_bytes(folder.path("a/1.jpg"), turned(read_file(fixture("large420.jpg")), 6));
  const auto set = open_image_folder(folder.path());
  Bytes scratch;
  EXPECT_EQ(shape_of(set->read(0, scratch)), (Shape{3, 150, 120}));
}

TEST(Orientation, ExifThatMakesNoSenseTurnsNothing) {
  const auto upright = [](const Bytes& exif) { return read_orientation(exif).upright(); };
  EXPECT_FALSE(upright(little_endian(3)));
  EXPECT_TRUE(upright(little_endian(0)));
  EXPECT_TRUE(upright(little_endian(9)));
  EXPECT_TRUE(upright({}));
  for (std::size_t size = 0; size < 20; ++size) {
    Bytes cut = little_endian(3);
    cut.resize(size);
    EXPECT_TRUE(upright(cut)) << size;
  }
  const auto changed = [](std::size_t at, int value) {
    Bytes exif = little_endian(3);
    exif[at] = static_cast<std::byte>(value);
    return exif;
  };
  EXPECT_TRUE(upright(changed(0, 'M')));   // two byte orders
  EXPECT_TRUE(upright(changed(2, 43)));    // no TIFF
  EXPECT_TRUE(upright(changed(7, 0xff)));  // a directory far away
  EXPECT_TRUE(upright(changed(8, 0)));     // of no entries
  EXPECT_TRUE(upright(changed(12, 4)));    // another type
  EXPECT_TRUE(upright(changed(14, 2)));    // two values
  Bytes endless = changed(10, 0x13);       // another tag
  endless[8] = endless[9] = std::byte{0xff};
  EXPECT_TRUE(upright(endless));
}

}  // namespace
}  // namespace convoy::data
