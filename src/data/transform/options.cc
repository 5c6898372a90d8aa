#include <cmath>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/data/transform.h"

namespace convoy::data {
namespace {

void check(bool good, const char* field, const std::string& value, const char* right) {
  if (!good) {
    throw UsageError(std::string("transform: ") + field + " is " + value + "; it must be " + right);
  }
}

void check_per_channel(const std::vector<float>& values, const char* field, int channels) {
  // With channels = 0 the data say how many there are, which the Transformer compares.
  const std::size_t size = values.size();
  const bool good =
      size == 1 || (channels == 0 ? size > 0 : size == static_cast<std::size_t>(channels));
  check(good, field, std::to_string(size) + " numbers",
        "one number, or as many as there are channels");
  for (const float value : values) {
    check(std::isfinite(value), field, std::to_string(value), "finite");
  }
}

void check_color(const TransformOptions& o) {
  const std::pair<const char*, double> factors[] = {
      {"brightness", o.brightness}, {"contrast", o.contrast}, {"saturation", o.saturation}};
  for (const auto& [field, value] : factors) {
    check(value >= 0 && value <= 1, field, std::to_string(value), "from 0 to 1");
  }
  check(o.lighting >= 0 && o.lighting <= 10, "lighting", std::to_string(o.lighting),
        "from 0 to 10");
}

}  // namespace

void validate(const TransformOptions& o) {
  check(o.channels == 0 || o.channels == 1 || o.channels == 3, "channels",
        std::to_string(o.channels), "1, 3, or 0 for those of the data");
  const bool from_data = o.crop == Crop::none || o.crop == Crop::random_padded;
  const char* side = from_data ? "from 1 to 65536, or 0 for that of the data" : "from 1 to 65536";
  const int least = from_data ? 0 : 1;
  check(o.height >= least && o.height <= kMaxSide, "height", std::to_string(o.height), side);
  check(o.width >= least && o.width <= kMaxSide, "width", std::to_string(o.width), side);
  if (o.crop == Crop::random_resized) {
    check(o.min_area > 0 && o.min_area <= 1, "min_area", std::to_string(o.min_area),
          "above 0 and at most 1");
    check(o.max_area >= o.min_area && o.max_area <= 1, "max_area", std::to_string(o.max_area),
          "from min_area to 1");
    check(o.min_ratio > 0 && std::isfinite(o.min_ratio), "min_ratio", std::to_string(o.min_ratio),
          "above 0");
    check(o.max_ratio >= o.min_ratio && std::isfinite(o.max_ratio), "max_ratio",
          std::to_string(o.max_ratio), "at least min_ratio");
  }
  if (o.crop == Crop::random_padded) {
    check(o.padding >= 0 && o.padding <= kMaxSide, "padding", std::to_string(o.padding),
          "from 0 to 65536");
  }
  if (o.crop == Crop::center || o.crop == Crop::fixed || o.crop == Crop::ten) {
    check(o.resize >= 0 && o.resize <= kMaxSide, "resize", std::to_string(o.resize),
          "from 1 to 65536, or 0 for no resizing");
    check(o.resize == 0 || o.resize >= std::min(o.height, o.width), "resize",
          std::to_string(o.resize), "at least the shorter of height and width");
  }
  if (o.crop == Crop::fixed) {
    check(o.left >= 0 && o.left <= kMaxSide, "left", std::to_string(o.left), "from 0 to 65536");
    check(o.top >= 0 && o.top <= kMaxSide, "top", std::to_string(o.top), "from 0 to 65536");
  }
  check(o.crop != Crop::ten || !o.flip, "flip", "on",
        "off with ten crops, which have both sides already");
  check_color(o);
  check_per_channel(o.mean, "mean", o.channels);
  check_per_channel(o.deviation, "deviation", o.channels);
  for (const float value : o.deviation) {
    check(value > 0, "deviation", std::to_string(value), "above 0");
  }
}

}  // namespace convoy::data
