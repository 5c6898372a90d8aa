// Windows are where torchvision puts them: tests/golden/make_crops.py.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "convoy/base/error.h"
#include "data/transform/crop_plan.h"
#include "tests/data/support.h"
#include "tests/golden/read.h"

namespace convoy::data {
namespace {

using nlohmann::json;

const json& golden_crops() {
  static const json crops = golden::read("crops.json");
  return crops;
}

CropPlan centered(int height, int width, int resize, int out) {
  TransformOptions options;
  options.crop = Crop::center;
  options.resize = resize;
  RandomStream random(1);
  return plan_crop(options, height, width, {3, out, out}, random);
}

TEST(CropPlan, CenterIsTorchvisions) {
  for (const json& c : golden_crops()["center"]) {
    const CropPlan plan = centered(c[0], c[1], c[2], c[3]);
    const std::array<int, 4> got{plan.out_height, plan.out_width, plan.part.top, plan.part.left};
    EXPECT_EQ(got, (std::array<int, 4>{c[4], c[5], c[6], c[7]})) << c;
  }
}

TEST(CropPlan, CenterIsTorchvisionsForAGridOfSizes) {
  std::uint64_t sum = 0;
  for (int height = 64; height < 320; ++height) {
    for (int width = 64; width < 320; ++width) {
      const CropPlan plan = centered(height, width, 256, 225);
      for (const int value : {plan.out_height, plan.out_width, plan.part.top, plan.part.left}) {
        sum = sum * 1000003 + static_cast<std::uint64_t>(value);
      }
    }
  }
  EXPECT_EQ(std::to_string(sum), golden_crops()["center_sum"].get<std::string>());
}

TEST(CropPlan, TheMiddleOfTenIsTorchvisions) {
  for (const json& c : golden_crops()["ten"]) {
    const Window window = five_windows(c[0], c[1], {3, c[2], c[2]})[4];
    EXPECT_EQ((std::array<int, 2>{window.top, window.left}), (std::array<int, 2>{c[3], c[4]})) << c;
  }
}

TEST(CropPlan, WhereNothingFitsTheWindowIsTorchvisions) {
  for (const json& c : golden_crops()["fallback"]) {
    TransformOptions options;
    options.crop = Crop::random_resized;
    options.min_area = options.max_area = 5;
    options.min_ratio = c[2];
    options.max_ratio = c[3];
    RandomStream random(1);
    const Window w = plan_crop(options, c[0], c[1], {3, 8, 8}, random).window;
    EXPECT_EQ((std::array<int, 4>{w.left, w.top, w.width, w.height}),
              (std::array<int, 4>{c[4], c[5], c[6], c[7]}))
        << c;
  }
}

// Area, logarithm of the ratio, and place from 0 to 1; NaN where a window has only one place.
std::array<double, 4> values_of(const Window& w, int height, int width) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  return {static_cast<double>(w.width) * w.height / (static_cast<double>(height) * width),
          std::log(static_cast<double>(w.width) / w.height),
          w.width < width ? static_cast<double>(w.left) / (width - w.width) : kNone,
          w.height < height ? static_cast<double>(w.top) / (height - w.height) : kNone};
}

TEST(CropPlan, RandomWindowsHaveTorchvisionsDistribution) {
  constexpr int kDraws = 50000;
  for (const json& c : golden_crops()["random"]) {
    // Two samples of one distribution differ by more (Kolmogorov-Smirnov) once in a million.
    const double bound = 2.69 * std::sqrt(1.0 / kDraws + 1.0 / c["draws"].get<double>());
    const int height = c["height"], width = c["width"];
    ASSERT_EQ(c["fitted"], 1.0);
    TransformOptions options;
    options.crop = Crop::random_resized;
    std::vector<std::array<double, 4>> drawn;
    for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
      RandomStream random(7, 3, sample);
      const CropPlan plan = plan_crop(options, height, width, {3, 224, 224}, random);
      drawn.push_back(values_of(plan.window, height, width));
    }
    for (std::size_t which = 0; which < 4; ++which) {
      for (const json& threshold : c["at_most"][which]) {
        double count = 0, below = 0;
        for (const auto& values : drawn) {
          if (std::isnan(values[which])) continue;
          ++count;
          below += values[which] <= threshold[0].get<double>();
        }
        EXPECT_NEAR(below / count, threshold[1].get<double>(), bound)
            << height << " x " << width << ": value " << which << " at most " << threshold[0];
      }
    }
    for (const json& pair : c["both_at_most"]) {
      const std::size_t a = pair[0], b = pair[1];
      double count = 0, below = 0;
      for (const auto& values : drawn) {
        if (std::isnan(values[a]) || std::isnan(values[b])) continue;
        ++count;
        below += values[a] <= pair[2].get<double>() && values[b] <= pair[3].get<double>();
      }
      EXPECT_NEAR(below / count, pair[4].get<double>(), bound) << a << " and " << b;
    }
  }
}

// Of ten crops the whole picture is made, of others their part.
TEST(CropPlan, ASliverIsTooLargeForTenCrops) {
  TransformOptions options;
  options.height = options.width = 224;
  options.resize = 256;
  const Shape out{3, 224, 224};
  RandomStream random(1);
  options.crop = Crop::center;
  EXPECT_EQ(plan_crop(options, 300'000, 1, out, random).out_height, 76'800'000);
  options.crop = Crop::ten;
  expect_error<UsageError>([&] { plan_crop(options, 300'000, 1, out, random); },
                           {"1 x 300000 pixels", "256 x 76800000", "ten crops"});
  EXPECT_EQ(plan_crop(options, 4000, 1, out, random).out_height, 1'024'000);
}

}  // namespace
}  // namespace convoy::data
