// Several crops of one record, colors, and types of output.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "convoy/data/loader.h"
#include "convoy/data/transform.h"
#include "data/transform/color.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

template <typename Element>
std::vector<Element> applied(const TransformOptions& options, const Record& record,
                             Layout layout = Layout::channels_last, std::uint64_t seed = 1) {
  Transformer transformer(options, shape_of(record));
  RandomStream random(seed);
  std::vector<Element> out(transformer.shape().elements() *
                           static_cast<std::size_t>(transformer.views()));
  transformer.apply(record, random, layout, out.data());
  return out;
}

struct Picture {
  Bytes bytes = read_file(fixture("large420.jpg"));
  Record record{bytes, Encoding::jpeg, {}, 0};
};

TransformOptions cropped(Crop crop, int height, int width) {
  TransformOptions options;
  options.crop = crop;
  options.height = height;
  options.width = width;
  options.resize = 64;
  return options;
}

TEST(Pixels, AllTypesAreTheSamePicture) {
  const Picture picture;
  for (const Crop crop : {Crop::random_resized, Crop::center}) {
    for (const Layout layout : {Layout::planar, Layout::channels_last}) {
      for (const int channels : {1, 3}) {
        // Widths that fill vectors, and that don't.
        for (const int width : {21, 64}) {
          TransformOptions options = cropped(crop, 32, width);
          options.channels = channels;
          options.flip = true;
          options.mean = {0.5f};
          options.deviation = {0.25f};
          const auto floats = applied<float>(options, picture.record, layout);
          options.pixel = Pixel::u8;
          const auto bytes = applied<std::uint8_t>(options, picture.record, layout);
          options.pixel = Pixel::bf16;
          const auto halves = applied<std::uint16_t>(options, picture.record, layout);
          for (std::size_t i = 0; i < floats.size(); ++i) {
            ASSERT_NEAR(floats[i], (static_cast<float>(bytes[i]) / 255 - 0.5f) / 0.25f, 2e-6f);
            const auto wide = std::bit_cast<float>(static_cast<std::uint32_t>(halves[i]) << 16);
            ASSERT_NEAR(wide, floats[i], std::abs(floats[i]) / 256);
          }
        }
      }
    }
  }
}

TEST(Pixels, FloatsBecomeBfloat16ToTheNearestEven) {
  // 1 + 1/256 lies between 1 and 1 + 1/128; 1 + 3/256 between that and 1 + 2/128.
  const std::vector<float> values = {1, 1 + 1.0f / 256, 1 + 3.0f / 256, -1 - 3.0f / 512, 0};
  const Record record{std::as_bytes(std::span(values)), Encoding::planar_f32, {5, 1, 1}, 0};
  TransformOptions options;
  options.pixel = Pixel::bf16;
  EXPECT_EQ(applied<std::uint16_t>(options, record, Layout::planar),
            (std::vector<std::uint16_t>{0x3F80, 0x3F80, 0x3F82, 0xBF81, 0}));
  options.pixel = Pixel::u8;
  expect_error<UsageError>([&] { applied<std::uint8_t>(options, record); }, {"floats", "bytes"});
}

TEST(Pixels, WhatIsNoNumberIsNoneAsBfloat16) {
  std::vector<float> values;
  for (const std::uint32_t bits : {0x7FFFFFFFu, 0xFFFFFFFFu, 0x7FC00000u, 0xFFC00001u})
    values.push_back(std::bit_cast<float>(bits));
  values.push_back(-std::numeric_limits<float>::infinity());
  values.push_back(std::numeric_limits<float>::max());
  const Record record{std::as_bytes(std::span(values)), Encoding::planar_f32, {6, 1, 1}, 0};
  TransformOptions options;
  options.pixel = Pixel::bf16;
  const auto halves = applied<std::uint16_t>(options, record, Layout::planar);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_GT(halves[i] & 0x7FFF, 0x7F80) << i;
  EXPECT_EQ(halves[4], 0xFF80);
  EXPECT_EQ(halves[5], 0x7F80);
}

TEST(Crops, TenAreTheCornersAndTheMiddleAndTheirMirrorImages) {
  const Picture picture;
  for (const int resize : {0, 64}) {
    TransformOptions ten = cropped(Crop::ten, 40, 48);
    ten.resize = resize;
    ten.pixel = Pixel::u8;
    const auto all = applied<std::uint8_t>(ten, picture.record);
    const std::size_t each = 40 * 48 * 3;
    ASSERT_EQ(all.size(), 10 * each);
    const int height = resize == 0 ? 120 : 64, width = resize == 0 ? 150 : 80;
    const int right = width - 48, bottom = height - 40;
    const int corners[5][2] = {
        {0, 0}, {right, 0}, {0, bottom}, {right, bottom}, {right / 2, bottom / 2}};
    for (std::size_t i = 0; i < 5; ++i) {
      TransformOptions one = ten;
      one.crop = Crop::fixed;
      one.left = corners[i][0];
      one.top = corners[i][1];
      const auto expected = applied<std::uint8_t>(one, picture.record);
      for (std::size_t at = 0; at < each; ++at) {
        const std::size_t row = at / 144, x = at / 3 % 48, c = at % 3;
        ASSERT_EQ(all[i * each + at], expected[at]) << "crop " << i;
        ASSERT_EQ(all[(i + 5) * each + at], expected[row * 144 + (47 - x) * 3 + c]);
      }
    }
  }
}

TEST(Crops, AFixedWindowHasToLieInside) {
  const Picture picture;
  TransformOptions options = cropped(Crop::fixed, 40, 48);
  options.left = 33;  // of 80 - 48
  expect_error<UsageError>([&] { applied<float>(options, picture.record); },
                           {"48 x 40 pixels at (33, 0)", "80 x 64"});
}

TEST(Colors, AreOneStepAfterTheOther) {
  TransformOptions options = cropped(Crop::center, 2, 2);
  options.brightness = options.contrast = options.saturation = 0.4;
  options.lighting = 0.1;
  const std::array<double, 3> pixel{200, 100, 50}, mean{120, 130, 60};
  const auto gray = [](const std::array<double, 3>& p) {
    return 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2];
  };
  std::set<std::array<int, 3>> orders;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RandomStream random(seed), again(seed);
    const ColorMap map = ColorChange(options, random).map(mean);
    // The same draws, and the steps one by one on a pixel and on the picture's mean.
    std::array<int, 3> order{0, 1, 2};
    for (std::size_t i = 2; i > 0; --i) std::swap(order[i], order[again.below(i + 1)]);
    orders.insert(order);
    double factors[3];
    for (double& factor : factors) factor = 0.6 + 0.8 * again.uniform();
    std::array<double, 3> p = pixel, m = mean;
    for (const int step : order) {
      const double f = factors[step];
      const double towards_p = step == 0 ? 0 : step == 1 ? gray(m) : gray(p);
      const double towards_m = step == 0 ? 0 : gray(m);
      for (double& v : p) v = f * v + (1 - f) * towards_p;
      for (double& v : m) v = f * v + (1 - f) * towards_m;
    }
    options.lighting = 0;
    RandomStream dark(seed);
    const ColorMap unlit = ColorChange(options, dark).map(mean);
    options.lighting = 0.1;
    for (std::size_t c = 0; c < 3; ++c) {
      const double value = unlit[c * 4] * pixel[0] + unlit[c * 4 + 1] * pixel[1] +
                           unlit[c * 4 + 2] * pixel[2] + unlit[c * 4 + 3];
      EXPECT_NEAR(value, p[c], 0.01);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(map[c * 4 + i], unlit[c * 4 + i]);
    }
  }
  EXPECT_EQ(orders.size(), 6u);
}

TEST(Colors, LightingHasItsDeviationAlongEachComponent) {
  TransformOptions options;
  options.lighting = 0.1;
  double sums[3] = {}, squares[3] = {};
  constexpr int kDraws = 20000;
  for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
    RandomStream random(seed);
    const ColorMap map = ColorChange(options, random).map({});
    // Across the main component, nearly a gray.
    const double along[3] = {-0.5675, -0.5808, -0.5836};
    double projected = 0;
    for (std::size_t c = 0; c < 3; ++c) projected += along[c] * map[c * 4 + 3];
    sums[0] += projected;
    squares[0] += projected * projected;
  }
  EXPECT_NEAR(sums[0] / kDraws, 0, 0.2);
  EXPECT_NEAR(std::sqrt(squares[0] / kDraws), 0.1 * 0.2175 * 255, 0.15);
}

TEST(Colors, ReachEveryTypeAndLayout) {
  const Picture picture;
  TransformOptions options = cropped(Crop::random_resized, 24, 20);
  options.flip = true;
  const auto plain = applied<float>(options, picture.record, Layout::planar, 9);
  options.contrast = options.saturation = options.brightness = 0.5;
  options.lighting = 0.1;
  options.mean = {0.4f, 0.5f, 0.6f};
  options.deviation = {0.2f};
  const auto planar = applied<float>(options, picture.record, Layout::planar, 9);
  const auto last = applied<float>(options, picture.record, Layout::channels_last, 9);
  options.pixel = Pixel::u8;
  const auto bytes = applied<std::uint8_t>(options, picture.record, Layout::planar, 9);
  std::size_t changed = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 480; ++i) {
      const float value = planar[c * 480 + i];
      ASSERT_NEAR(last[i * 3 + c], value, 1e-5f);
      const double byte = std::clamp((value * 0.2 + options.mean[c]) * 255, 0.0, 255.0);
      ASSERT_NEAR(bytes[c * 480 + i], byte, 0.51);
      changed += std::abs(plain[c * 480 + i] - byte / 255) > 0.01;
    }
  }
  EXPECT_GT(changed, 400u);
  options.channels = 1;
  expect_error<UsageError>([&] { applied<std::uint8_t>(options, picture.record); },
                           {"mean is 3 numbers"});
  options.mean = {0};
  expect_error<UsageError>([&] { applied<std::uint8_t>(options, picture.record); },
                           {"3 channels", "1"});
}

TEST(Crops, ALoaderKeepsTheViewsOfASampleTogether) {
  std::vector<Bytes> records;
  for (int i = 0; i < 5; ++i) {
    records.push_back(i == 2 ? to_bytes({1, 2}) : read_file(fixture("large420.jpg")));
  }
  const auto data = std::make_shared<TestDataset>(records, Encoding::jpeg, Shape{});
  TransformOptions transform = cropped(Crop::ten, 16, 16);
  transform.pixel = Pixel::u8;
  LoaderOptions options;
  options.batch = 5;
  options.threads = 2;
  options.shuffle = false;
  options.on_bad = OnBad::skip;
  Loader loader(data, transform, options);
  const Batch* batch = loader.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->size(), 4u);
  EXPECT_EQ(batch->views, 10);
  EXPECT_EQ(batch->pixel, Pixel::u8);
  EXPECT_TRUE(batch->images.empty());
  const auto one =
      applied<std::uint8_t>(transform, {records[0], Encoding::jpeg, {}, 0}, Layout::planar);
  ASSERT_EQ(batch->bytes.size(), 4 * one.size());
  for (std::size_t i = 0; i < batch->bytes.size(); ++i) {
    ASSERT_EQ(std::to_integer<std::uint8_t>(batch->bytes[i]), one[i % one.size()]);
  }
}

}  // namespace
}  // namespace convoy::data
