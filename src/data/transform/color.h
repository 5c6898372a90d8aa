// Random changes of color: all of them are linear, so that together they are one map per picture.
#pragma once

#include "convoy/base/random.h"
#include "data/transform/emitter.h"

namespace convoy::data {

// Draws brightness, contrast and saturation, their order, and the lighting of one picture. Draws
// nothing for what is off.
class ColorChange {
 public:
  ColorChange(const TransformOptions& options, RandomStream& random);

  // Whether map() needs to know the mean color of the picture.
  bool needs_mean() const { return contrast_ != 1; }
  // mean: of red, green and blue, as bytes.
  ColorMap map(const std::array<double, 3>& mean) const;

  static bool wanted(const TransformOptions& options);

 private:
  std::array<int, 3> order_{0, 1, 2};  // 0 brightness, 1 contrast, 2 saturation
  double brightness_ = 1, contrast_ = 1, saturation_ = 1;
  std::array<double, 3> lighting_{};  // added to red, green and blue, as bytes
};

}  // namespace convoy::data
