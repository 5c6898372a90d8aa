// Which part of the inputs and parameters a part of an output needs.
#include <algorithm>

#include "model/blueprint/sizes.h"

namespace convoy::model {
namespace {

struct Range {
  std::int64_t begin = 0, size = 0;
  std::int64_t end() const { return begin + size; }
};

Range range_of(const Slice& slice, std::size_t d) { return {slice.begin[d], slice.size[d]}; }

void set(Slice& slice, std::size_t d, Range range) {
  slice.begin[d] = range.begin;
  slice.size[d] = range.size;
}

Range clipped(std::int64_t begin, std::int64_t end, std::int64_t extent) {
  begin = std::clamp<std::int64_t>(begin, 0, extent);
  return {begin, std::clamp<std::int64_t>(end, begin, extent) - begin};
}

// The rows of an image under the windows of these rows of the output, from the first to the last.
// Windows can begin and end in the padding, and have gaps.
Range under_windows(const Window& w, std::size_t d, Range out, std::int64_t extent) {
  std::int64_t first = extent, last = -1;
  for (std::int64_t o = out.begin; o < out.end(); ++o) {
    for (std::int64_t k = 0; k < w.kernel[d]; ++k) {
      const std::int64_t row = o * w.stride[d] - w.padding[d] + k * w.dilation[d];
      if (row < 0 || row >= extent) continue;
      first = std::min(first, row);
      last = std::max(last, row);
    }
  }
  return first <= last ? Range{first, last - first + 1} : Range{};
}

void set_under_windows(Slice& in, const Window& w, const Slice& output) {
  for (std::size_t d = 0; d < 2; ++d)
    set(in, d + 1, under_windows(w, d, range_of(output, d + 1), in.shape[d + 1]));
}

// The groups that these output channels are in, as a range of `each` channels of each.
Range of_groups(const layer::Convolution& c, Range out, std::int64_t each) {
  const std::int64_t per_group = c.out / c.groups;
  const std::int64_t first = out.begin / per_group, last = (out.end() - 1) / per_group;
  return {first * each, (last - first + 1) * each};
}

// The smallest box of `shape` that holds elements begin to end - 1 in C order.
Slice box_around(Slice in, Range flat) {
  std::int64_t begin = flat.begin, last = flat.end() - 1;
  std::int64_t below = elements_of(in.shape);
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    below /= in.shape[d];
    const std::int64_t from = begin / below, to = last / below;
    set(in, d, {from, to - from + 1});
    // From here on ends differ: the dimensions inside are needed in full.
    if (from != to) break;
    begin %= below;
    last %= below;
  }
  return in;
}

// REQUIRES: an output that isn't empty, and inputs that fit.
struct Required {
  const Node& node;
  const Slice& output;
  // Of one input: comes in as the whole.
  void operator()(Slice& in, const layer::Convolution& c) const {
    set(in, 0, of_groups(c, range_of(output, 0), c.in / c.groups));
    set_under_windows(in, window_of(c), output);
  }
  void operator()(Slice& in, const layer::Linear&) const {
    for (std::size_t d = 0; d + 1 < in.shape.size(); ++d) set(in, d, range_of(output, d));
  }
  void operator()(Slice& in, const layer::LocallyConnected& l) const {
    set_under_windows(in, window_of(l), output);
  }
  void operator()(Slice& in, const layer::LocalContrastNorm& n) const {
    if (!n.mean_as_least) set_under_windows(in, window_of(n), output);
  }
  void operator()(Slice& in, const layer::L2Pool& p) const {
    set(in, 0, range_of(output, 0));
    set_under_windows(in, window_of(p), output);
  }
  void operator()(Slice& in, const layer::MaxPool& p) const {
    set(in, 0, range_of(output, 0));
    set_under_windows(in, window_of(p), output);
  }
  void operator()(Slice& in, const layer::AveragePool& p) const {
    set(in, 0, range_of(output, 0));
    set_under_windows(in, window_of(p), output);
  }
  void operator()(Slice& in, const layer::AdaptiveAveragePool& p) const {
    set(in, 0, range_of(output, 0));
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t extent = in.shape[d + 1], parts = p.size[d];
      const Range out = range_of(output, d + 1);
      set(in, d + 1,
          clipped(out.begin * extent / parts, (out.end() * extent + parts - 1) / parts, extent));
    }
  }
  void operator()(Slice& in, const layer::Subsample& s) const {
    const Range out = range_of(output, 0);
    set(in, 0, clipped(out.begin, out.end(), in.shape[0]));
    set_under_windows(in, window_of(s), output);
  }
  void operator()(Slice& in, const layer::Flatten&) const {
    in = box_around(in, range_of(output, 0));
  }
  void operator()(Slice& in, const layer::Opaque& o) const {
    if (!o.required) return;
    Slice part = o.required(in.shape, output);
    part.tensor = in.tensor;
    part.check();
    if (part.shape != in.shape)
      complain(node,
               "states a part of " + text_of(part.shape) + ", its input is " + text_of(in.shape));
    in = part;
  }
  // Those that work on each element alone.
  template <class Other>
  void operator()(Slice& in, const Other&) const {
    in.begin = output.begin;
    in.size = output.size;
  }
};

// Of a module of the user's; `part` comes in as the whole, under its name in the network.
void require_tensor(Slice& part, const Node& node, const layer::Opaque& o, const TensorInfo& info,
                    const Slice& output) {
  if (!o.required_tensor || part.shape.empty() || output.elements() == 0) return;
  Slice own = o.required_tensor(whole_of(info.name, info.shape), output);
  own.tensor = part.tensor;
  own.check();
  if (own.shape != part.shape) {
    complain(node, "states a part of " + text_of(own.shape) + " of its '" + info.name +
                       "', which is " + text_of(part.shape));
  }
  part = own;
}

void check_output(const Node& node, std::span<const Shape> inputs, const Slice& output) {
  output.check();
  const Shape shape = output_shape(node, inputs);
  if (output.shape != shape)
    complain(node, "its output is " + text_of(shape) + ", not " + text_of(output.shape));
}

}  // namespace

void extend(Slice& box, const Slice& part) {
  if (part.elements() == 0) return;
  if (box.elements() == 0) {
    box = part;
    return;
  }
  for (std::size_t d = 0; d < box.shape.size(); ++d) {
    const std::int64_t end = std::max(box.begin[d] + box.size[d], part.begin[d] + part.size[d]);
    box.begin[d] = std::min(box.begin[d], part.begin[d]);
    box.size[d] = end - box.begin[d];
  }
}

bool lies_in(const Slice& part, const Slice& box) {
  if (part.elements() == 0) return true;
  for (std::size_t d = 0; d < part.size.size(); ++d) {
    if (part.begin[d] < box.begin[d] || part.begin[d] + part.size[d] > box.begin[d] + box.size[d])
      return false;
  }
  return true;
}

std::vector<Slice> required_input(const Node& node, std::span<const Shape> inputs,
                                  const Slice& output) {
  check_output(node, inputs, output);
  std::vector<Slice> parts;
  std::int64_t before = 0;  // of what is concatenated
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Slice part = whole_of(i < node.inputs.size() ? node.inputs[i] : "", inputs[i]);
    if (output.elements() == 0) {
      std::fill(part.size.begin(), part.size.end(), 0);
    } else if (const auto* c = std::get_if<layer::Concatenate>(&node.kind)) {
      part.begin = output.begin;
      part.size = output.size;
      const Range out = range_of(output, c->dimension);
      const std::int64_t extent = inputs[i][c->dimension];
      set(part, c->dimension, clipped(out.begin - before, out.end() - before, extent));
      before += extent;
    } else {
      std::visit([&](const auto& kind) { Required{node, output}(part, kind); }, node.kind);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<Slice> required_parameters(const Node& node, std::span<const Shape> inputs,
                                       const Slice& output) {
  check_output(node, inputs, output);
  // Units of the first dimension of each, where there are such.
  std::size_t units = 0;
  if (std::holds_alternative<layer::Linear>(node.kind)) units = output.shape.size() - 1;
  const auto* opaque = std::get_if<layer::Opaque>(&node.kind);
  std::vector<Slice> parts;
  for (const TensorInfo& tensor : tensors_of(node)) {
    Slice part = whole_of(tensor.name, tensor.shape);
    if (std::holds_alternative<layer::LocallyConnected>(node.kind)) {
      // Rows, columns and maps.
      for (std::size_t d = 0; d < 3; ++d) set(part, d, range_of(output, (d + 1) % 3));
    } else if (opaque != nullptr) {
      require_tensor(part, node, *opaque, opaque->tensors[parts.size()], output);
    } else if (!part.shape.empty()) {
      set(part, 0, range_of(output, units));
    }
    if (output.elements() == 0 && !part.shape.empty()) part.size[0] = 0;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace convoy::model
