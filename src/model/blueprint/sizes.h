// Windows of convolutions and pools, and checks that shapes and regions share.
#pragma once

#include <span>
#include <string>

#include "convoy/model/layers.h"

namespace convoy::model {

// Throws UsageError naming the layer.
[[noreturn]] void complain(const Node& node, const std::string& what);
// Throws unless the node takes so many inputs.
void check_inputs(const Node& node, std::span<const Shape> inputs);

// What slides over an image.
struct Window {
  layer::Pair kernel, stride, padding, dilation{1, 1};
  // Positions from the first to the last that a window covers.
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }
};

inline Window window_of(const layer::Convolution& c) {
  return {c.kernel, c.stride, c.padding, c.dilation};
}
inline Window window_of(const layer::MaxPool& p) { return {p.kernel, p.stride, p.padding}; }
inline Window window_of(const layer::AveragePool& p) { return {p.kernel, p.stride, p.padding}; }
inline Window window_of(const layer::Subsample& s) { return {{1, 1}, s.stride, {0, 0}}; }

}  // namespace convoy::model
