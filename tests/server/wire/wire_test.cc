#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "convoy/base/error.h"
#include "server/wire/reader.h"
#include "server/wire/writer.h"
#include "tests/base/scratch.h"

namespace convoy::server {
namespace {

std::vector<float> through(Encoding encoding, const std::vector<float>& values) {
  Writer writer;
  writer.values(encoding, values);
  const Bytes bytes = writer.take();
  Reader reader(bytes, "test");
  const EncodedValues read = reader.values();
  reader.end();
  EXPECT_EQ(read.size(), values.size());
  std::vector<float> back(read.size());
  read.decode(0, back);
  return back;
}

TEST(Wire, ReadsWhatWasWritten) {
  Writer writer;
  writer.u8(200);
  writer.u16(50000);
  writer.u32(4000000000);
  writer.u64(std::numeric_limits<std::uint64_t>::max() - 1);
  writer.f64(-0.1);
  writer.boolean(true);
  writer.text("fc.weight");
  const Bytes inside = {std::byte{1}, std::byte{2}};
  writer.bytes(inside);
  const Bytes bytes = writer.take();
  Reader reader(bytes, "test");
  EXPECT_EQ(reader.u8(), 200);
  EXPECT_EQ(reader.u16(), 50000);
  EXPECT_EQ(reader.u32(), 4000000000);
  EXPECT_EQ(reader.u64(), std::numeric_limits<std::uint64_t>::max() - 1);
  EXPECT_EQ(reader.f64(), -0.1);
  EXPECT_TRUE(reader.boolean());
  EXPECT_EQ(reader.text(), "fc.weight");
  const auto read = reader.bytes();
  EXPECT_EQ(Bytes(read.begin(), read.end()), inside);
  reader.end();
}

TEST(Wire, IsLittleEndian) {
  Writer writer;
  writer.u32(0x01020304);
  const Bytes expected = {std::byte{4}, std::byte{3}, std::byte{2}, std::byte{1}};
  EXPECT_EQ(writer.take(), expected);
}

TEST(Wire, NamesWhatIsWrong) {
  const auto message = [](const Bytes& bytes, const std::function<void(Reader&)>& read) {
    return test::message_of<UsageError>([&] {
      Reader reader(bytes, "hello");
      read(reader);
    });
  };
  const Bytes three(3);
  EXPECT_EQ(message(three, [](Reader& r) { r.u32(); }),
            "hello: byte 0: 4 bytes should follow, 3 do");
  EXPECT_EQ(message(three, [](Reader& r) { r.u8(), r.end(); }),
            "hello: byte 1: the end should be here, 2 bytes follow");
  EXPECT_EQ(message({std::byte{2}}, [](Reader& r) { r.boolean(); }),
            "hello: byte 1: 2 is neither 0 nor 1");
  EXPECT_EQ(message({std::byte{9}, std::byte{0}}, [](Reader& r) { r.version(3); }),
            "hello: byte 2: version 9; this program knows 1 to 3");
  Writer text;
  text.text("too long");
  EXPECT_EQ(message(text.take(), [](Reader& r) { r.text(7); }),
            "hello: byte 4: a text of 8 bytes; 7 are accepted");
}

// Sizes that are too large, also where multiplying them would wrap around.
TEST(Wire, BelievesNoSize) {
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{1} << 31, std::uint64_t{1} << 62,
                                   (std::uint64_t{1} << 62) + 1, std::uint64_t{1} << 63,
                                   std::numeric_limits<std::uint64_t>::max()}) {
    for (const auto encoding : {Encoding::f32, Encoding::bf16, Encoding::f16}) {
      Writer writer;
      writer.u8(static_cast<std::uint8_t>(encoding));
      writer.u64(size);
      Bytes bytes = writer.take();
      bytes.resize(bytes.size() + encoded_size(encoding, 1) - 1);  // one byte less than one value
      Reader reader(bytes, "test");
      EXPECT_THROW(reader.values(), UsageError) << size;
    }
    Writer writer;
    writer.u64(size);
    Reader reader(writer.view(), "test");
    EXPECT_THROW(reader.bytes(), UsageError) << size;
  }
  Writer writer;
  writer.u32(3);
  writer.u64(0);
  Reader three(writer.view(), "test");
  EXPECT_THROW(three.count(3), UsageError);
  Reader two(writer.view(), "test");
  EXPECT_THROW(two.count(4), UsageError);
  Reader enough(writer.view().first(4 + 6), "test");
  EXPECT_EQ(enough.count(2), 3u);
  Bytes unknown(9);
  unknown[0] = std::byte{4};
  Reader reader(unknown, "test");
  EXPECT_THROW(reader.values(), UsageError);
}

TEST(Values, F32KeepsEveryBit) {
  const std::vector<float> values = {0.0F, -0.0F, 1.5F, 1e-45F, std::nanf("7"), -INFINITY};
  const auto back = through(Encoding::f32, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(back[i]), std::bit_cast<std::uint32_t>(values[i]));
  }
  EXPECT_TRUE(through(Encoding::f32, {}).empty());
}

TEST(Values, Bf16RoundsToNearestEven) {
  // 1 + 2^-8 and 1 + 3 * 2^-8 lie half-way between two.
  const auto back = through(
      Encoding::bf16, {1.0F, 1.00390625F, 1.01171875F, 1.004F, -0.0F, 3e38F, 3.4e38F, 1e-40F});
  EXPECT_EQ(back[0], 1.0F);
  EXPECT_EQ(back[1], 1.0F);
  EXPECT_EQ(back[2], 1.015625F);
  EXPECT_EQ(back[3], 1.0078125F);
  EXPECT_TRUE(back[4] == 0 && std::signbit(back[4]));
  EXPECT_NEAR(back[5], 3e38F, 1e36F);
  EXPECT_TRUE(std::isinf(back[6]));
  EXPECT_NEAR(back[7], 1e-40F, 1e-41F);
  EXPECT_TRUE(std::isnan(through(Encoding::bf16, {std::bit_cast<float>(0x7f800001)})[0]));
}

// All 65536 numbers of f16 come back, and what lies between two goes to the nearer one.
TEST(Values, F16RoundsToNearestEven) {
  std::vector<std::byte> bytes(2 * 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    bytes[2 * i] = static_cast<std::byte>(i);
    bytes[2 * i + 1] = static_cast<std::byte>(i >> 8);
  }
  std::vector<float> values(65536);
  EncodedValues(Encoding::f16, 65536, bytes).decode(0, values);
  EXPECT_EQ(values[0x3c00], 1.0F);
  EXPECT_EQ(values[0x0001], 0x1p-24F);
  EXPECT_EQ(values[0x7bff], 65504.0F);
  EXPECT_EQ(values[0xc000], -2.0F);
  EXPECT_TRUE(std::isinf(values[0x7c00]));
  std::vector<std::byte> again(bytes.size());
  encode(Encoding::f16, values, again);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    if (std::isnan(values[i])) continue;
    EXPECT_TRUE(again[2 * i] == bytes[2 * i] && again[2 * i + 1] == bytes[2 * i + 1]) << i;
  }
  for (std::uint32_t i = 0; i < 0x7bff; ++i) {  // neighbors, both finite
    const float middle = (values[i] + values[i + 1]) / 2;
    const float even = values[i % 2 == 0 ? i : i + 1];
    EXPECT_EQ(through(Encoding::f16, {middle})[0], even) << i;
    EXPECT_EQ(through(Encoding::f16, {-std::nextafter(middle, INFINITY)})[0], -values[i + 1]) << i;
  }
  const auto large = through(Encoding::f16, {65519.0F, 65520.0F, -1e30F, 1e-8F});
  EXPECT_EQ(large[0], 65504.0F);
  EXPECT_TRUE(std::isinf(large[1]) && std::isinf(large[2]));
  EXPECT_EQ(large[3], 0.0F);
  EXPECT_TRUE(std::isnan(through(Encoding::f16, {NAN})[0]));
}

TEST(Values, FindsWhatIsNotFinite) {
  for (const auto encoding : {Encoding::f32, Encoding::bf16, Encoding::f16}) {
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      for (const std::size_t place : {0u, 7u, 63u, 64u, 100u}) {
        std::vector<float> values(102, -0.0F);
        values[place ^ 1] = 1e-7F;
        Writer writer;
        writer.values(encoding, values);
        Reader good(writer.view(), "test");
        EXPECT_TRUE(good.values().finite());
        values[place] = bad;
        Writer with_bad;
        with_bad.values(encoding, values);
        Reader reader(with_bad.view(), "test");
        EXPECT_FALSE(reader.values().finite()) << bad << " at " << place;
      }
    }
  }
  // What doesn't fit f16 is found as well.
  Writer writer;
  writer.values(Encoding::f16, std::vector<float>{1e6F});
  Reader reader(writer.view(), "test");
  EXPECT_FALSE(reader.values().finite());
}

TEST(Values, FillIsOneValueForAll) {
  Writer writer;
  writer.fill(-2.5F, std::uint64_t{1} << 40);
  EXPECT_EQ(writer.size(), 1u + 8 + 4);
  Reader reader(writer.view(), "test");
  const EncodedValues values = reader.values();
  EXPECT_EQ(values.size(), std::uint64_t{1} << 40);
  std::vector<float> some(3);
  values.decode((std::uint64_t{1} << 40) - 3, some);
  EXPECT_EQ(some, (std::vector<float>{-2.5F, -2.5F, -2.5F}));
  Writer bad;
  bad.fill(NAN, 5);
  EXPECT_FALSE(Reader(bad.view(), "test").values().finite());
  Writer none;
  none.fill(NAN, 0);
  EXPECT_TRUE(Reader(none.view(), "test").values().finite());
}

TEST(Values, StandAtAnyAddress) {
  const std::vector<float> values = {1, 2, 3, 4};
  for (std::size_t shift = 0; shift < 4; ++shift) {
    Bytes bytes(shift + 16);
    encode(Encoding::f32, values, std::span(bytes).subspan(shift));
    const EncodedValues encoded(Encoding::f32, 4, std::span(bytes).subspan(shift));
    std::vector<float> scratch(2);
    const auto view = encoded.view(1, 2, scratch);
    EXPECT_EQ(std::vector<float>(view.begin(), view.end()), (std::vector<float>{2, 3}));
    EXPECT_TRUE(encoded.finite());
  }
}

}  // namespace
}  // namespace convoy::server
