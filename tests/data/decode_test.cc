#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/random.h"
#include "convoy/data/transform.h"
#include "data/decode/decode.h"
#include "data/decode/large_pictures.h"
#include "tests/base/patience.h"
#include "tests/data/decoded.h"
#include "tests/data/golden_images.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

bool is_jpeg_name(const std::string& file) { return file.ends_with(".jpg"); }

TEST(Decode, IsWhatPillowDecodes) {
  const GoldenImages golden;
  for (const auto& item : golden.cases("decoded")) {
    SCOPED_TRACE(item.file);
    const Bytes bytes = read_file(fixture(item.file));
    const Image image = decoded(bytes);
    EXPECT_EQ(image.height, item.height);
    EXPECT_EQ(image.width, item.width);
    EXPECT_EQ(image.channels, item.channels);
    const Difference off = difference(image.pixels, item.pixels);
    // Versions of libjpeg-turbo round differently; PNG is exact.
    EXPECT_LE(off.mean, is_jpeg_name(item.file) ? 0.3 : 0.0);
    EXPECT_LE(off.most, is_jpeg_name(item.file) ? 3 : 0);
    EXPECT_EQ(shape_of({bytes, Encoding::jpeg, {}, 0}),
              (Shape{item.channels, item.height, item.width}));
  }
}

TEST(Decode, ConvertsChannels) {
  const GoldenImages golden;
  for (const auto& item : golden.cases("decoded")) {
    SCOPED_TRACE(item.file);
    const Bytes bytes = read_file(fixture(item.file));
    const Image gray = decoded(bytes, 1);
    const Image color = decoded(bytes, 3);
    const auto pixels = static_cast<std::size_t>(item.height * item.width);
    ASSERT_EQ(gray.pixels.size(), pixels);
    ASSERT_EQ(color.pixels.size(), 3 * pixels);
    std::vector<std::uint8_t> expected_gray, expected_color;
    for (std::size_t i = 0; i < pixels; ++i) {
      const auto at = [&](std::size_t c) {
        return item.channels == 1 ? item.pixels[i] : item.pixels[3 * i + c];
      };
      expected_gray.push_back(luma(at(0), at(1), at(2)));
      for (std::size_t c = 0; c < 3; ++c) expected_color.push_back(at(c));
    }
    // The luma that a JPEG holds is not yet rounded and clipped to RGB.
    EXPECT_LE(difference(gray.pixels, expected_gray).mean, is_jpeg_name(item.file) ? 1.0 : 0.0);
    EXPECT_LE(difference(color.pixels, expected_color).mean, is_jpeg_name(item.file) ? 0.3 : 0.0);
  }
}

TEST(Decode, APartOfAJpegHasTheSamePixelsAsTheWhole) {
  RandomStream random(7);
  for (const char* file : {"large420.jpg", "color420.jpg", "color422.jpg", "color444.jpg",
                           "progressive.jpg", "restarts.jpg", "rgb.jpg", "gray.jpg", "cmyk.jpg"}) {
    const Bytes bytes = read_file(fixture(file));
    for (const int channels : {0, 1, 3}) {
      const Image whole = decoded(bytes, channels);
      JpegDecoder decoder;
      for (int i = 0; i < 60; ++i) {
        Window window;
        window.left = static_cast<int>(random.below(static_cast<std::uint64_t>(whole.width)));
        window.top = static_cast<int>(random.below(static_cast<std::uint64_t>(whole.height)));
        window.width = 1 + static_cast<int>(
                               random.below(static_cast<std::uint64_t>(whole.width - window.left)));
        window.height =
            1 +
            static_cast<int>(random.below(static_cast<std::uint64_t>(whole.height - window.top)));
        Image part;
        decoder.open(bytes);
        const Window held = decoder.decode(channels, window, part);
        ASSERT_EQ(part.channels, whole.channels);
        ASSERT_EQ(part.width, held.width);
        ASSERT_EQ(held.top, window.top);
        ASSERT_EQ(held.height, window.height);
        ASSERT_LE(held.left, window.left);
        ASSERT_GE(held.left + held.width, window.left + window.width);
        const auto row = static_cast<std::size_t>(window.width * whole.channels);
        for (int y = 0; y < window.height; ++y) {
          const auto* expected = &whole.pixels[static_cast<std::size_t>(
              ((window.top + y) * whole.width + window.left) * whole.channels)];
          const auto* actual = &part.pixels[static_cast<std::size_t>(
              (y * held.width + window.left - held.left) * part.channels)];
          ASSERT_TRUE(std::equal(expected, expected + row, actual))
              << file << ": row " << y << " of " << window.width << " x " << window.height
              << " at (" << window.left << ", " << window.top << "), channels " << channels;
        }
      }
    }
  }
}

TEST(Decode, TruncatedFilesAreRefusedWhereverTheyEnd) {
  for (const char* file : {"color420.jpg", "progressive.jpg", "cmyk.jpg", "pattern.png",
                           "interlaced.png", "gray16.png"}) {
    const Bytes bytes = read_file(fixture(file));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy, so that a sanitizer sees reads behind the end.
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_THROW(decoded(part), UsageError) << file << " cut to " << size << " bytes";
    }
  }
}

TEST(Decode, ErrorsSayWhatIsWrong) {
  expect_error<UsageError>([] { decoded({}); }, {"empty"});
  expect_error<UsageError>(
      [] {
        decoded(to_bytes({'G', 'I', 'F', '8', '9', 'a'}));
      },
      {"neither a JPEG nor a PNG", "6 bytes"});
  Bytes jpeg = read_file(fixture("color420.jpg"));
  jpeg.resize(jpeg.size() - 10);
  expect_error<UsageError>([&] { decoded(jpeg); }, {"JPEG: ", "Premature end"});
  Bytes png = read_file(fixture("pattern.png"));
  png.resize(png.size() / 2);
  expect_error<UsageError>([&] { decoded(png); }, {"PNG: ", "truncated"});
  Bytes damaged = read_file(fixture("pattern.png"));
  damaged[damaged.size() / 2] ^= std::byte{1};
  expect_error<UsageError>([&] { decoded(damaged); }, {"PNG: "});
  expect_error<UsageError>([] { decoded(read_file(fixture("gray.png")), 2); }, {"1 or 3", "not 2"});
}

// Where the height and width stand in the header.
std::size_t jpeg_size_at(const Bytes& bytes) {
  for (std::size_t i = 2; i + 4 < bytes.size();) {
    const int marker = std::to_integer<int>(bytes[i + 1]);
    if (marker == 0xc0 || marker == 0xc2) return i + 5;
    i += 2 + (std::to_integer<std::size_t>(bytes[i + 2]) << 8) +
         std::to_integer<std::size_t>(bytes[i + 3]);
  }
  return 0;
}

TEST(Decode, ForgedSizesAreRefusedBeforeMemoryIsAllocated) {
  Bytes jpeg = read_file(fixture("color420.jpg"));
  const std::size_t at = jpeg_size_at(jpeg);
  ASSERT_GT(at, 0u);
  const auto with_size = [&](int height, int width) {
    Bytes changed = jpeg;
    changed[at] = static_cast<std::byte>(height >> 8);
    changed[at + 1] = static_cast<std::byte>(height);
    changed[at + 2] = static_cast<std::byte>(width >> 8);
    changed[at + 3] = static_cast<std::byte>(width);
    return changed;
  };
  expect_error<UsageError>([&] { decoded(with_size(40000, 40000)); },
                           {"40000 x 40000 pixels", "268435456"});
  expect_error<UsageError>([&] { decoded(with_size(16000, 16000)); },
                           {"truncated", "can't hold 16000 x 16000 pixels"});
  expect_error<UsageError>([&] { decoded(with_size(4000, 4000)); },
                           {"truncated", "can't hold 4000 x 4000 pixels"});
  EXPECT_THROW(decoded(with_size(0, 10)), UsageError);

  EXPECT_THROW(check_size("PNG", kMaxPixels, 2), UsageError);
  EXPECT_THROW(check_size("PNG", 0, 2), UsageError);
  EXPECT_NO_THROW(check_size("PNG", kMaxPixels, 1));
}

// libjpeg takes the end of arithmetic codes for zeros without end.
TEST(Decode, AlmostNothingInArithmeticCodesIsNoLargePicture) {
  for (const int frame : {0xc9, 0xca}) {  // sequential and progressive
    Bytes jpeg = to_bytes({0xff, 0xd8, 0xff, 0xdb, 0, 67, 0});
    jpeg.resize(jpeg.size() + 64, std::byte{1});
    const Bytes rest = to_bytes({0xff, frame, 0,   17,   8,    0x40, 0,    0x40,
                                 0,    3,     1,   0x11, 0,    2,    0x11, 0,
                                 3,    0x11,  0,   0xff, 0xda, 0,    12,   3,
                                 1,    0,     2,   0,    3,    0,    0,    frame == 0xc9 ? 63 : 0,
                                 0,    0,     0,   0,    0,    0,    0,    0,
                                 0,    0xff,  0xd9});
    jpeg.insert(jpeg.end(), rest.begin(), rest.end());
    expect_error<UsageError>(
        [&] {
          shape_of({jpeg, Encoding::jpeg, {}, 0});
        },
        {"truncated", "can't hold 16384 x 16384 pixels"});
  }
}

void append_chunk(Bytes& png, const std::string& name, const Bytes& data) {
  const auto number = [&png](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8)
      png.push_back(static_cast<std::byte>(value >> shift));
  };
  number(static_cast<std::uint32_t>(data.size()));
  const std::size_t begin = png.size();
  for (const char c : name) png.push_back(static_cast<std::byte>(c));
  png.insert(png.end(), data.begin(), data.end());
  number(static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(&png[begin]),
                                          static_cast<uInt>(png.size() - begin))));
}

TEST(Decode, TextInAPngIsNotHeldInMemory) {
  // "key", compressed by deflate: 15 MiB in some 15 KB.
  const Bytes text(std::size_t{15} << 20, std::byte{'a'});
  Bytes data = to_bytes({'k', 'e', 'y', 0, 0});
  uLongf size = compressBound(text.size());
  data.resize(data.size() + size);
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(&data[5]), &size,
                     reinterpret_cast<const Bytef*>(text.data()), text.size()),
            Z_OK);
  data.resize(5 + size);
  const Bytes plain = read_file(fixture("gray.png"));
  const auto header_end = plain.begin() + 8 + 25;
  Bytes png(plain.begin(), header_end);
  for (int i = 0; i < 40; ++i) append_chunk(png, "zTXt", data);
  png.insert(png.end(), header_end, plain.end());
  ASSERT_LT(png.size(), std::size_t{1} << 20);
  const std::uint64_t before = peak_memory();
  EXPECT_EQ(decoded(png).pixels, decoded(plain).pixels);
  EXPECT_LT(peak_memory() - before, std::uint64_t{200} << 20);
}

// Waits until a thread waits for its turn.
void await_turn() {
  const Clock::time_point begin = Clock::now();
  while (LargePicture::waiting() == 0) {
    ASSERT_LT(seconds_since(begin), test::patience_s()) << "nobody waits";
    std::this_thread::yield();
  }
}

TEST(LargePictures, AreDecodedTogetherAsFarAsTheyFit) {
  std::optional<LargePicture> half(std::in_place, kLargeTogether / 2);
  const LargePicture other(kLargeTogether / 2);
  std::atomic<bool> through = false;
  std::thread third([&] {
    const LargePicture one(1);
    through = true;
  });
  await_turn();
  EXPECT_FALSE(through);
  half.reset();
  third.join();
  EXPECT_TRUE(through);
}

TEST(LargePictures, OneThatIsLargerIsDecodedAlone) {
  std::optional<LargePicture> beyond(std::in_place, kLargeTogether + 1);
  std::thread other([] { const LargePicture one(1); });
  await_turn();
  beyond.reset();
  other.join();
}

// A file of 9 KB whose 8192 x 8448 pixels take 69 MB: sixteen threads would have sixteen of them.
TEST(LargePictures, FilesWaitForTheirTurn) {
  Bytes png = to_bytes({0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});
  append_chunk(png, "IHDR", to_bytes({0, 0, 0x20, 0, 0, 0, 0x21, 0, 1, 0, 0, 0, 0}));
  append_chunk(png, "IDAT", Bytes(9000));
  const Record record{png, Encoding::png, {}, 0};
  TransformOptions options;
  options.crop = Crop::center;
  options.height = options.width = options.resize = 8;
  std::optional<LargePicture> others(std::in_place, kLargeTogether);
  std::string problem;
  std::thread worker([&] {
    Transformer transformer(options, shape_of(record));
    RandomStream random(0);
    std::vector<float> out(64);
    problem = test::message_of<UsageError>(
        [&] { transformer.apply(record, random, Layout::planar, out.data()); });
  });
  await_turn();
  others.reset();
  worker.join();
  EXPECT_NE(problem.find("PNG: "), std::string::npos) << problem;
  const LargePicture all(kLargeTogether);  // its turn is over, though it was bad
}

TEST(Decode, FlippedBitsNeverHarm) {
  RandomStream random(3);
  std::size_t refused = 0;
  for (const char* file : {"color420.jpg", "progressive.jpg", "cmyk.jpg", "palette.png",
                           "color_alpha.png", "interlaced.png"}) {
    const Bytes bytes = read_file(fixture(file));
    for (int i = 0; i < 300; ++i) {
      Bytes changed = bytes;
      changed[random.below(changed.size())] ^= static_cast<std::byte>(1u << random.below(8));
      try {
        const Image image = decoded(changed);
        EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.height) *
                                           static_cast<std::size_t>(image.width) *
                                           static_cast<std::size_t>(image.channels));
      } catch (const UsageError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500u);
}

TEST(Decode, ADecoderGoesOnAfterABadPicture) {
  const Bytes good = read_file(fixture("color420.jpg"));
  const Bytes bad(good.begin(), good.end() - 20);
  JpegDecoder decoder;
  Image image;
  for (int i = 0; i < 3; ++i) {
    decoder.open(bad);
    EXPECT_THROW(decoder.decode(0, image), UsageError);
    decoder.open(good);
    decoder.decode(0, image);
    EXPECT_EQ(image.pixels, decoded(good).pixels);
    decoder.open(good);  // and not decoded
  }
}

}  // namespace
}  // namespace convoy::data
