#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "convoy/data/transform.h"
#include "data/transform/crop_plan.h"
#include "tests/base/sanitizers.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

using Floats = std::vector<float>;

// Bytes are normalized with one multiplication and one addition.
constexpr float kRounding = 1e-6f;

// Element (c, y, x) of a planar record is c * 100 + y * 10 + x.
struct Counted {
  explicit Counted(Shape s) : shape(s) {
    for (int c = 0; c < s.channels; ++c) {
      for (int y = 0; y < s.height; ++y) {
        for (int x = 0; x < s.width; ++x) bytes.push_back(static_cast<std::byte>(at(c, y, x)));
      }
    }
  }
  static int at(int c, int y, int x) { return c * 100 + y * 10 + x; }
  Record record() const { return {bytes, Encoding::planar_u8, shape, 0}; }

  Shape shape;
  Bytes bytes;
};

Floats applied(const TransformOptions& options, const Record& record,
               Layout layout = Layout::planar, std::uint64_t seed = 1) {
  Transformer transformer(options, shape_of(record));
  RandomStream random(seed);
  Floats out(transformer.shape().elements(), -1.0f);
  transformer.apply(record, random, layout, out.data());
  return out;
}

TransformOptions sized(Crop crop, int height, int width, int channels = 0) {
  TransformOptions options;
  options.crop = crop;
  options.height = height;
  options.width = width;
  options.channels = channels;
  return options;
}

TEST(Transform, NormalizesEachChannel) {
  const Counted image({3, 2, 4});
  TransformOptions options;
  options.mean = {0.1f, 0.2f, 0.3f};
  options.deviation = {0.5f, 0.25f, 2.0f};
  const Floats planar = applied(options, image.record());
  const Floats last = applied(options, image.record(), Layout::channels_last);
  ASSERT_EQ(planar.size(), 24u);
  for (int c = 0; c < 3; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    for (int y = 0; y < 2; ++y) {
      for (int x = 0; x < 4; ++x) {
        const float expected =
            (static_cast<float>(Counted::at(c, y, x)) / 255.0f - options.mean[channel]) /
            options.deviation[channel];
        EXPECT_NEAR(planar[static_cast<std::size_t>((c * 2 + y) * 4 + x)], expected, kRounding);
        EXPECT_NEAR(last[static_cast<std::size_t>((y * 4 + x) * 3 + c)], expected, kRounding);
      }
    }
  }
}

TEST(Transform, InterleavedBytesAreTheSameImage) {
  const Counted image({3, 2, 4});
  Bytes interleaved;
  for (std::size_t i = 0; i < 8; ++i) {
    for (std::size_t c = 0; c < 3; ++c) interleaved.push_back(image.bytes[c * 8 + i]);
  }
  const Record record{interleaved, Encoding::interleaved_u8, image.shape, 0};
  EXPECT_EQ(applied({}, record), applied({}, image.record()));
}

TEST(Transform, FloatsAreNormalizedWithoutThe255) {
  const Floats values = {1, 2, 3, 4, 5, 6};
  Bytes unaligned(1 + values.size() * sizeof(float));
  std::memcpy(unaligned.data() + 1, values.data(), values.size() * sizeof(float));
  const Record record{std::span(unaligned).subspan(1), Encoding::planar_f32, {6, 1, 1}, 0};
  TransformOptions options;
  options.mean = {1};
  options.deviation = {2};
  EXPECT_EQ(applied(options, record), (Floats{0, 0.5, 1, 1.5, 2, 2.5}));
  expect_error<UsageError>([&] { applied(sized(Crop::random_resized, 4, 4), record); },
                           {"floats", "resized"});
}

// Of what can't be transformed, whatever is in it, it is said without trying.
TEST(Transform, ChecksRecordsBeforehand) {
  const auto refused = [](const TransformOptions& options, const Record& record,
                          const std::vector<std::string>& parts) {
    expect_error<UsageError>([&] { Transformer(options, record.shape).check(record); }, parts);
  };
  const Bytes values(24);
  const Record floats{values, Encoding::planar_f32, {1, 2, 3}, 0};
  const Record bytes{std::span(values).first(6), Encoding::planar_u8, {1, 2, 3}, 0};
  TransformOptions larger = sized(Crop::center, 4, 4);
  larger.resize = 4;
  refused(larger, floats, {"floats", "resized (here from 3 x 2 to 6 x 4)"});
  Transformer(larger, bytes.shape).check(bytes);
  refused(sized(Crop::none, 4, 4), bytes, {"3 x 2 pixels", "4 x 4 pixels", "need a crop"});
  Transformer(sized(Crop::none, 2, 3), floats.shape).check(floats);
}

TEST(Transform, FlipMirrorsHalfOfThem) {
  const Counted image({3, 2, 4});
  TransformOptions options;
  options.flip = true;
  const Floats straight = applied({}, image.record());
  int mirrored = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Floats out = applied(options, image.record(), Layout::planar, seed);
    if (out == straight) continue;
    ++mirrored;
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], straight[i / 4 * 4 + 3 - i % 4]);
    Floats last = applied(options, image.record(), Layout::channels_last, seed);
    EXPECT_EQ(last[0], straight[3]);
  }
  EXPECT_GT(mirrored, 70);
  EXPECT_LT(mirrored, 130);
}

TEST(Transform, RandomPaddedShowsEveryOffsetAndPadsWithBlack) {
  const Counted image({1, 3, 3});
  TransformOptions options = sized(Crop::random_padded, 0, 0);
  options.padding = 1;
  options.mean = {0.5f};
  std::vector<int> seen(9);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Floats out = applied(options, image.record(), Layout::planar, seed);
    // The middle pixel tells where the window lies.
    const int middle = static_cast<int>(std::lround((out[4] + 0.5f) * 255));
    const int top = middle / 10 - 1;
    const int left = middle % 10 - 1;
    ++seen[static_cast<std::size_t>((top + 1) * 3 + left + 1)];
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 3; ++x) {
        const int row = y + top, column = x + left;
        const bool inside = row >= 0 && row < 3 && column >= 0 && column < 3;
        const int value = inside ? Counted::at(0, row, column) : 0;
        EXPECT_NEAR(out[static_cast<std::size_t>(y * 3 + x)],
                    static_cast<float>(value) / 255.0f - 0.5f, kRounding);
      }
    }
  }
  for (const int times : seen) EXPECT_GT(times, 5);
}

TEST(Transform, CenterTakesTheMiddleWithAndWithoutResizing) {
  const Counted image({1, 5, 8});
  TransformOptions options = sized(Crop::center, 3, 4);
  options.resize = 0;
  const Floats plain = applied(options, image.record());
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 4; ++x) {
      EXPECT_FLOAT_EQ(plain[static_cast<std::size_t>(y * 4 + x)],
                      static_cast<float>(Counted::at(0, y + 1, x + 2)) / 255.0f);
    }
  }
  options.resize = 5;  // the short side as it is
  EXPECT_EQ(applied(options, image.record()), plain);

  // Resized to 10 x 16, of which rows 3 .. 6 and columns 6 .. 9.
  options.resize = 10;
  options.height = options.width = 4;
  const Floats resized = applied(options, image.record());
  Image whole{5, 8, 1, {}};
  for (const std::byte b : image.bytes) whole.pixels.push_back(std::to_integer<std::uint8_t>(b));
  std::vector<std::uint8_t> expected;
  resize(whole, {0, 0, 8, 5}, 10, 16, expected);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) {
      EXPECT_FLOAT_EQ(
          resized[static_cast<std::size_t>(y * 4 + x)],
          static_cast<float>(expected[static_cast<std::size_t>((y + 3) * 16 + x + 6)]) / 255.0f);
    }
  }
}

TEST(Transform, ACropOfAFileIsTheCropOfItsPixels) {
  for (const char* file : {"large420.jpg", "cmyk.jpg", "pattern.png", "gray_alpha.png"}) {
    for (const int channels : {1, 3}) {
      Image image;
      const Bytes bytes = read_file(fixture(file));
      decode_image(bytes, channels, image);
      const auto pixels = std::as_bytes(std::span(image.pixels));
      const Record stored{bytes, Encoding::jpeg, {}, 0};
      const Record plain{
          pixels, Encoding::interleaved_u8, {channels, image.height, image.width}, 0};
      for (const Crop crop : {Crop::random_resized, Crop::random_padded, Crop::center}) {
        TransformOptions options = sized(crop, 20, 24, channels);
        options.resize = 28;
        options.flip = true;
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
          EXPECT_EQ(applied(options, stored, Layout::planar, seed),
                    applied(options, plain, Layout::planar, seed))
              << file << ", crop " << static_cast<int>(crop) << ", seed " << seed;
        }
      }
    }
  }
}

TEST(Transform, GrayAndColorAreConverted) {
  const Counted gray({1, 2, 2});
  const Floats color = applied(sized(Crop::none, 0, 0, 3), gray.record());
  ASSERT_EQ(color.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(color[i], applied({}, gray.record())[i % 4]);
  const Counted three({3, 1, 1});  // 0, 100, 200
  EXPECT_EQ(applied(sized(Crop::none, 0, 0, 1), three.record())[0], 82.0f / 255.0f);
  const Counted two({2, 1, 1});
  EXPECT_EQ(applied({}, two.record()).size(), 2u);  // features may have any number
  expect_error<UsageError>([&] { applied(sized(Crop::none, 0, 0, 3), two.record()); },
                           {"2 channels", "3"});
}

// Whatever their number: each channel is resized as it is alone.
TEST(Transform, ResizesPicturesOfAnyNumberOfChannels) {
  for (const int channels : {2, 3, 4, 7}) {
    Bytes bytes(static_cast<std::size_t>(channels) * 30 * 40);
    RandomStream numbers(3);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(numbers.below(256));
    const Record all{bytes, Encoding::planar_u8, {channels, 30, 40}, 0};
    for (const Crop crop : {Crop::center, Crop::random_resized, Crop::ten}) {
      TransformOptions options = sized(crop, 12, 12);
      options.resize = 17;
      options.flip = crop != Crop::ten;
      const std::size_t views = crop == Crop::ten ? 10 : 1;
      const auto run = [&](const Record& record, Layout layout) {
        Transformer transformer(options, record.shape);
        RandomStream random(9);
        Floats out(transformer.shape().elements() * views, -1.0f);
        transformer.apply(record, random, layout, out.data());
        return out;
      };
      const Floats planar = run(all, Layout::planar), last = run(all, Layout::channels_last);
      const auto count = static_cast<std::size_t>(channels);
      for (std::size_t c = 0; c < count; ++c) {
        const Record one{
            std::span(bytes).subspan(c * 1200, 1200), Encoding::planar_u8, {1, 30, 40}, 0};
        const Floats alone = run(one, Layout::planar);
        for (std::size_t i = 0; i < alone.size(); ++i) {
          const std::size_t view = i / 144, pixel = i % 144;
          ASSERT_EQ(planar[(view * count + c) * 144 + pixel], alone[i]) << channels << " " << c;
          ASSERT_EQ(last[i * count + c], alone[i]) << channels << " " << c;
        }
      }
    }
  }
}

TEST(Transform, RandomWindowsKeepAreaAndRatio) {
  TransformOptions options = sized(Crop::random_resized, 10, 10);
  options.min_area = 0.25;
  options.max_area = 0.5;
  RandomStream random(11);
  double smallest = 1, largest = 0;
  for (int i = 0; i < 2000; ++i) {
    const CropPlan plan = plan_crop(options, 300, 400, {3, 10, 10}, random);
    const Window& w = plan.window;
    EXPECT_GE(w.left, 0);
    EXPECT_GE(w.top, 0);
    EXPECT_LE(w.left + w.width, 400);
    EXPECT_LE(w.top + w.height, 300);
    const double area = w.width * w.height / 120000.0;
    const double ratio = static_cast<double>(w.width) / w.height;
    EXPECT_GT(area, 0.245);
    EXPECT_LT(area, 0.505);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.345);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
  }
  EXPECT_LT(smallest, 0.26);
  EXPECT_GT(largest, 0.49);
  // Nothing of the ratio fits with this area: the middle, as much as the ratio allows.
  options.min_area = options.max_area = 1;
  const CropPlan wide = plan_crop(options, 10, 1000, {3, 10, 10}, random);
  EXPECT_EQ(wide.window.width, 13);
  EXPECT_EQ(wide.window.height, 10);
  EXPECT_EQ(wide.window.left, 493);
  const CropPlan tall = plan_crop(options, 1, 1, {3, 10, 10}, random);
  EXPECT_EQ(tall.window.width, 1);
}

// An epoch resumed by a later version has to see the same pixels: these are fixed for good.
TEST(Transform, RandomChoicesAreFixedByTheStream) {
  RandomStream random(42, 1, 2);
  TransformOptions options = sized(Crop::random_resized, 224, 224);
  options.flip = true;
  const CropPlan first = plan_crop(options, 375, 500, {3, 224, 224}, random);
  const CropPlan second = plan_crop(options, 375, 500, {3, 224, 224}, random);
  const auto text = [](const CropPlan& plan) {
    return std::to_string(plan.window.left) + " " + std::to_string(plan.window.top) + " " +
           std::to_string(plan.window.width) + " " + std::to_string(plan.window.height) +
           (plan.flip ? " flip" : "");
  };
  EXPECT_EQ(text(first), "266 52 143 176");
  EXPECT_EQ(text(second), "72 39 258 330 flip");
}

TEST(Transform, OptionsAreChecked) {
  const auto refused = [](const std::function<void(TransformOptions&)>& change,
                          const std::vector<std::string>& parts) {
    TransformOptions options = sized(Crop::random_resized, 8, 8);
    change(options);
    expect_error<UsageError>([&] { validate(options); }, parts);
  };
  EXPECT_NO_THROW(validate({}));
  EXPECT_NO_THROW(validate(sized(Crop::random_resized, 8, 8)));
  refused([](auto& o) { o.channels = 2; }, {"channels is 2", "1, 3"});
  refused([](auto& o) { o.height = 0; }, {"height is 0"});
  refused([](auto& o) { o.width = 70000; }, {"width is 70000"});
  refused([](auto& o) { o.min_area = 0; }, {"min_area"});
  refused([](auto& o) { o.min_area = 0.5, o.max_area = 0.4; }, {"max_area"});
  refused([](auto& o) { o.min_ratio = -1; }, {"min_ratio"});
  refused([](auto& o) { o.max_ratio = 0.1; }, {"max_ratio"});
  refused([](auto& o) { o.crop = Crop::random_padded, o.padding = -1; }, {"padding is -1"});
  refused([](auto& o) { o.crop = Crop::center, o.resize = 7; }, {"resize is 7"});
  refused([](auto& o) { o.crop = Crop::fixed, o.left = -1; }, {"left is -1"});
  refused([](auto& o) { o.crop = Crop::ten, o.flip = true; }, {"flip is on", "both sides"});
  refused([](auto& o) { o.brightness = 1.5; }, {"brightness is 1.5", "0 to 1"});
  refused([](auto& o) { o.lighting = -1; }, {"lighting is -1"});
  refused([](auto& o) { o.mean = {}; }, {"mean is 0 numbers"});
  refused([](auto& o) { o.channels = 3, o.mean = {1, 2}; }, {"mean is 2 numbers"});
  refused([](auto& o) { o.channels = 1, o.deviation = {1, 2, 3}; }, {"deviation is 3 numbers"});
  refused([](auto& o) { o.deviation = {0}; }, {"deviation", "above 0"});
  TransformOptions three;
  three.mean = {1, 2, 3};
  expect_error<UsageError>(
      [&] {
        Transformer(three, {1, 2, 2});
      },
      {"mean has 3 numbers", "1 channels"});
}

// As of satellites, whose channels have little in common.
TEST(Transform, FourChannelsHaveMeansOfTheirOwn) {
  const Counted image({4, 2, 3});
  TransformOptions options;
  options.mean = {0.1f, 0.2f, 0.3f, 0.4f};
  options.deviation = {1, 2, 4, 8};
  const std::vector<float> out = applied(options, image.record());
  ASSERT_EQ(out.size(), 24u);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t channel = i / 6;
    const float value = static_cast<float>(std::to_integer<int>(image.record().bytes[i])) / 255;
    EXPECT_NEAR(out[i], (value - options.mean[channel]) / options.deviation[channel], 1e-6) << i;
  }
  options.mean.pop_back();
  expect_error<UsageError>([&] { applied(options, image.record()); },
                           {"mean has 3 numbers", "4 channels"});
}

// A panorama among photographs; a thread would keep 108 MB for the rest of the run.
TEST(Transform, ALargePictureLeavesNoMemoryBehind) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer keeps what was given back";
  TransformOptions options = sized(Crop::center, 8, 8);
  options.resize = 8;
  options.channels = 3;
  const Bytes gray(36'000'000, std::byte{9});
  Record record;
  record.bytes = gray;
  record.shape = {1, 6000, 6000};
  Transformer transformer(options, record.shape);
  std::vector<float> out(3 * 8 * 8);
  RandomStream random(0);
  const std::uint64_t before = resident_memory();
  transformer.apply(record, random, Layout::planar, out.data());
  EXPECT_NEAR(out[0], 9.0 / 255, 1e-6);
  EXPECT_LT(resident_memory(), before + (std::uint64_t{32} << 20));
}

TEST(Transform, ErrorsSayWhatIsWrongWithTheRecord) {
  const Counted image({1, 5, 8});
  expect_error<UsageError>([&] { applied(sized(Crop::none, 5, 9), image.record()); },
                           {"8 x 5 pixels", "9 x 5 pixels"});
  TransformOptions center = sized(Crop::center, 6, 6);
  center.resize = 0;
  expect_error<UsageError>([&] { applied(center, image.record()); },
                           {"8 x 5 pixels", "smaller than the output of 6 x 6"});
  TransformOptions padded = sized(Crop::random_padded, 20, 8);
  expect_error<UsageError>([&] { applied(padded, image.record()); }, {"8 x 5 pixels", "8 x 20"});
  Record record = image.record();
  record.bytes = record.bytes.first(39);
  expect_error<UsageError>([&] { applied({}, record); }, {"39 bytes", "40"});
  expect_error<UsageError>([&] { shape_of({{}, Encoding::png, {}, 0}); }, {"empty"});
}

}  // namespace
}  // namespace convoy::data
