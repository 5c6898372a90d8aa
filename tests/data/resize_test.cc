#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/random.h"
#include "convoy/data/transform.h"
#include "data/transform/resizer.h"
#include "tests/data/golden_images.h"
#include "tests/data/support.h"

namespace convoy::data {
namespace {

Image pattern(int channels) {
  Image image;
  decode_image(read_file(fixture("pattern.png")), channels, image);
  return image;
}

TEST(Resize, IsWhatPillowCallsBilinear) {
  const GoldenImages golden;
  for (const auto& item : golden.cases("resized")) {
    const Window window{item.box[0], item.box[1], item.box[2] - item.box[0],
                        item.box[3] - item.box[1]};
    SCOPED_TRACE(testing::Message()
                 << window.width << " x " << window.height << " to " << item.width << " x "
                 << item.height << ", channels " << item.channels);
    std::vector<std::uint8_t> out;
    resize(pattern(item.channels), window, item.height, item.width, out);
    const Difference off = difference(out, item.pixels);
    // Pillow rounds to bytes between the two directions.
    EXPECT_LE(off.mean, 0.4);
    EXPECT_LE(off.most, 1);
  }
}

// The definition, in double precision: a triangle as wide as one output pixel (or one input pixel,
// if that is more), cut at the picture's edges.
std::vector<double> weights_of(int input, double begin, double scale, int position) {
  const double center = begin + (position + 0.5) * scale;
  const double widening = std::max(1.0, scale);
  std::vector<double> weights(static_cast<std::size_t>(input));
  double total = 0;
  for (int x = 0; x < input; ++x) {
    const double w = std::max(0.0, 1 - std::abs(x + 0.5 - center) / widening);
    weights[static_cast<std::size_t>(x)] = w;
    total += w;
  }
  for (double& w : weights) w /= total;
  return weights;
}

double reference(const Image& image, const Window& window, int out_height, int out_width, int y,
                 int x, int c) {
  const auto rows = weights_of(image.height, window.top, double(window.height) / out_height, y);
  const auto columns = weights_of(image.width, window.left, double(window.width) / out_width, x);
  double sum = 0;
  for (int v = 0; v < image.height; ++v) {
    for (int u = 0; u < image.width; ++u) {
      sum += rows[static_cast<std::size_t>(v)] * columns[static_cast<std::size_t>(u)] *
             image.pixels[static_cast<std::size_t>((v * image.width + u) * image.channels + c)];
    }
  }
  return sum;
}

TEST(Resize, IsTheDefinitionWithinHalfAStepAndALittle) {
  RandomStream random(17);
  const auto up_to = [&](int most) {
    return 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most)));
  };
  for (int i = 0; i < 60; ++i) {
    Image image{up_to(40), i % 7 == 0 ? 200 : up_to(40), 1 + i % 5, {}};
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
    for (auto& pixel : image.pixels) pixel = static_cast<std::uint8_t>(random.below(256));
    Window window{0, 0, up_to(image.width), up_to(image.height)};
    window.left = up_to(image.width - window.width + 1) - 1;
    window.top = up_to(image.height - window.height + 1) - 1;
    const int height = up_to(30), width = up_to(30);
    std::vector<std::uint8_t> out;
    resize(image, window, height, width, out);
    for (int n = 0; n < 40; ++n) {
      const int y = up_to(height) - 1, x = up_to(width) - 1, c = up_to(image.channels) - 1;
      const double expected = reference(image, window, height, width, y, x, c);
      // Half for rounding to a byte; the rest for weights and sums of 16 bits.
      ASSERT_NEAR(out[static_cast<std::size_t>((y * width + x) * image.channels + c)], expected,
                  0.6)
          << image.width << " x " << image.height << " to " << width << " x " << height;
    }
  }
}

// Neither lighter nor darker, however many pixels become one: their mean over the whole picture.
TEST(Resize, NoSizeMakesAPictureLighterOrDarker) {
  struct Size {
    int height, width, out_height, out_width;
  };
  for (const Size& s : {Size{500, 500, 32, 32}, {992, 992, 32, 32}, {6000, 16, 20, 16}}) {
    SCOPED_TRACE(testing::Message() << s.height << " to " << s.out_height);
    Image image{s.height, s.width, 1, {}};
    RandomStream random(23);
    for (int i = 0; i < s.height * s.width; ++i)
      image.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
    std::vector<std::uint8_t> out;
    resize(image, {0, 0, s.width, s.height}, s.out_height, s.out_width, out);
    // The mean of the definition: both directions add up by themselves.
    std::vector<double> rows(static_cast<std::size_t>(s.height)),
        columns(static_cast<std::size_t>(s.width));
    const auto add = [](std::vector<double>& sums, int outputs) {
      const double scale = static_cast<double>(sums.size()) / outputs;
      for (int i = 0; i < outputs; ++i) {
        const auto weights = weights_of(static_cast<int>(sums.size()), 0, scale, i);
        for (std::size_t x = 0; x < sums.size(); ++x) sums[x] += weights[x] / outputs;
      }
    };
    add(rows, s.out_height);
    add(columns, s.out_width);
    double expected = 0, mean = 0;
    for (std::size_t i = 0; i < image.pixels.size(); ++i)
      expected += rows[i / columns.size()] * columns[i % columns.size()] * image.pixels[i];
    for (const std::uint8_t pixel : out) mean += pixel / static_cast<double>(out.size());
    EXPECT_NEAR(mean, expected, 0.07);
  }
}

TEST(Resize, TheSameSizeChangesNothing) {
  for (const int channels : {1, 3}) {
    const Image image = pattern(channels);
    std::vector<std::uint8_t> out;
    resize(image, {0, 0, image.width, image.height}, image.height, image.width, out);
    EXPECT_EQ(out, image.pixels);
  }
}

TEST(Resize, APartIsThePartOfTheWhole) {
  const Image image = pattern(3);
  Resizer resizer;
  resizer.plan(image.height, image.width, {3, 2, 30, 24}, 40, 50, {0, 0, 50, 40});
  const auto pixels_of = [&] {
    const Window& source = resizer.source();
    return image.pixels.data() + (source.top * image.width + source.left) * 3;
  };
  const auto stride = static_cast<std::size_t>(image.width * 3);
  const auto run = [&](int height, int width) {
    resizer.begin(pixels_of(), stride, 3);
    std::vector<std::uint8_t> planes;
    for (int y = 0; y < height; ++y) {
      const std::uint8_t* row = resizer.row(y);
      for (std::size_t c = 0; c < 3; ++c) {
        const std::uint8_t* plane = row + c * resizer.plane_stride();
        planes.insert(planes.end(), plane, plane + width);
      }
    }
    return planes;
  };
  const auto whole = run(40, 50);
  const Window wanted{11, 7, 20, 15};
  for (const bool mirror : {false, true}) {
    resizer.plan(image.height, image.width, {3, 2, 30, 24}, 40, 50, wanted, mirror);
    EXPECT_LT(resizer.source().width, 20);
    const auto part = run(wanted.height, wanted.width);
    for (int row = 0; row < wanted.height * 3; ++row) {
      for (int x = 0; x < wanted.width; ++x) {
        const int from = mirror ? wanted.width - 1 - x : x;
        ASSERT_EQ(
            part[static_cast<std::size_t>(row * wanted.width + x)],
            whole[static_cast<std::size_t>((row + wanted.top * 3) * 50 + wanted.left + from)]);
      }
    }
  }
}

TEST(Resize, RandomWindowsStayInside) {
  // For the sanitizer: no window and size reads or writes outside.
  RandomStream random(5);
  const auto up_to = [&](int most) {
    return 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(most)));
  };
  for (int i = 0; i < 500; ++i) {
    Image image{up_to(20), up_to(20), 1 + i % 5, {}};
    image.pixels.assign(static_cast<std::size_t>(image.height * image.width * image.channels), 200);
    Window window{0, 0, up_to(image.width), up_to(image.height)};
    window.left = up_to(image.width - window.width + 1) - 1;
    window.top = up_to(image.height - window.height + 1) - 1;
    std::vector<std::uint8_t> out;
    resize(image, window, up_to(40), up_to(40), out);
    for (const std::uint8_t value : out) ASSERT_EQ(value, 200);
  }
}

TEST(Resize, ErrorsSayWhatIsWrong) {
  const Image image = pattern(3);
  std::vector<std::uint8_t> out;
  expect_error<UsageError>(
      [&] {
        resize(image, {30, 0, 10, 10}, 5, 5, out);
      },
      {"10 x 10 at (30, 0)", "37 x 29"});
  expect_error<UsageError>([&] { resize(image, {0, 0, 0, 10}, 5, 5, out); }, {"0 x 10"});
  expect_error<UsageError>([&] { resize(image, {0, 0, 10, 10}, 0, 5, out); }, {"5 x 0"});
  expect_error<UsageError>(
      [&] {
        resize({1, 1, 0, {}}, {0, 0, 1, 1}, 1, 1, out);
      },
      {"without channels"});
}

}  // namespace
}  // namespace convoy::data
