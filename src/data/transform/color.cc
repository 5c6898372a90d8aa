#include "data/transform/color.h"

#include <cmath>
#include <numbers>
#include <utility>

namespace convoy::data {
namespace {

// ITU-R 601, as in luma().
constexpr std::array<double, 3> kLuma{0.299, 0.587, 0.114};

// The principal components of the colors of ImageNet's pixels in 0 .. 1: one per column, and the
// deviation along each. Everybody who lights as AlexNet does uses these numbers.
constexpr double kComponents[3][3] = {
    {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};
constexpr std::array<double, 3> kSpread{0.2175, 0.0188, 0.0045};

double factor(double most, RandomStream& random) {
  return most > 0 ? 1 - most + 2 * most * random.uniform() : 1;
}

// Box and Muller's; of the two numbers one is enough here.
double normal(RandomStream& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace

bool ColorChange::wanted(const TransformOptions& o) {
  return o.brightness > 0 || o.contrast > 0 || o.saturation > 0 || o.lighting > 0;
}

ColorChange::ColorChange(const TransformOptions& o, RandomStream& random) {
  if (o.brightness > 0 || o.contrast > 0 || o.saturation > 0) {
    for (std::size_t i = 2; i > 0; --i) std::swap(order_[i], order_[random.below(i + 1)]);
    brightness_ = factor(o.brightness, random);
    contrast_ = factor(o.contrast, random);
    saturation_ = factor(o.saturation, random);
  }
  if (o.lighting > 0) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double amount = o.lighting * normal(random) * kSpread[i] * 255;
      for (std::size_t c = 0; c < 3; ++c) lighting_[c] += amount * kComponents[c][i];
    }
  }
}

ColorMap ColorChange::map(const std::array<double, 3>& mean) const {
  double m[3][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
  for (const int step : order_) {
    if (step == 0) {
      for (auto& row : m) {
        for (double& value : row) value *= brightness_;
      }
    } else if (step == 1) {
      // Towards the mean gray of the picture as it is by now, or away from it.
      double gray = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        gray += kLuma[c] * (m[c][0] * mean[0] + m[c][1] * mean[1] + m[c][2] * mean[2] + m[c][3]);
      }
      for (auto& row : m) {
        for (double& value : row) value *= contrast_;
        row[3] += (1 - contrast_) * gray;
      }
    } else {
      // Towards each pixel's own gray.
      for (std::size_t i = 0; i < 4; ++i) {
        const double gray = kLuma[0] * m[0][i] + kLuma[1] * m[1][i] + kLuma[2] * m[2][i];
        for (auto& row : m) row[i] = saturation_ * row[i] + (1 - saturation_) * gray;
      }
    }
  }
  ColorMap result;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 4; ++i) result[c * 4 + i] = static_cast<float>(m[c][i]);
    result[c * 4 + 3] += static_cast<float>(lighting_[c]);
  }
  return result;
}

}  // namespace convoy::data
