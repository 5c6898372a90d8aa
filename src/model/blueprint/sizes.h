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

// Makes `box` the smallest one that holds both; what is empty holds nothing.
void extend(Slice& box, const Slice& part);
// Whether `box` holds all of `part`.
bool lies_in(const Slice& part, const Slice& box);

// What slides over an image.
struct Window {
  layer::Pair kernel, stride, padding, dilation{1, 1};
  bool ceil = false;  // one more window, where some rows or columns are left over
  // Counts the positions from the first to the last that a window covers.
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilation[d] + 1; }
  // Says how many positions windows have along `extent` rows or columns; 0 where none fits.
  std::int64_t positions(std::size_t d, std::int64_t extent) const {
    const std::int64_t room = extent + 2 * padding[d] - reach(d) + (ceil ? stride[d] - 1 : 0);
    if (room < 0) return 0;
    const std::int64_t count = room / stride[d] + 1;
    // None begins behind the image, in its padding.
    return ceil && (count - 1) * stride[d] >= extent + padding[d] ? count - 1 : count;
  }
};

inline Window window_of(const layer::Convolution& c) {
  return {c.kernel, c.stride, c.padding, c.dilation};
}
inline Window window_of(const layer::LocallyConnected& l) {
  return {l.kernel, l.stride, l.padding};
}
inline Window window_of(const layer::L2Pool& p) { return {p.kernel, p.stride, p.padding}; }
// From each output to all inputs: a window of windows.
inline Window window_of(const layer::LocalContrastNorm& n) {
  return {{2 * n.window[0] - 1, 2 * n.window[1] - 1}, {1, 1}, {n.window[0] - 1, n.window[1] - 1}};
}
inline Window window_of(const layer::MaxPool& p) {
  return {p.kernel, p.stride, p.padding, {1, 1}, p.ceil};
}
inline Window window_of(const layer::AveragePool& p) { return {p.kernel, p.stride, p.padding}; }
inline Window window_of(const layer::Subsample& s) { return {{1, 1}, s.stride, {0, 0}}; }

}  // namespace convoy::model
