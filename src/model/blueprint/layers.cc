#include "convoy/model/layers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "convoy/base/error.h"
#include "model/blueprint/sizes.h"

namespace convoy::model {

std::int64_t elements_of(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

std::string text_of(const Shape& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d)
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

void complain(const Node& node, const std::string& what) {
  throw UsageError("layer '" + node.name + "': " + what);
}

void check_inputs(const Node& node, std::span<const Shape> inputs) {
  const bool many = std::holds_alternative<layer::Add>(node.kind) ||
                    std::holds_alternative<layer::Concatenate>(node.kind);
  if (many ? inputs.size() < 2 : inputs.size() != 1) {
    complain(node, std::string(many ? "takes two inputs or more" : "takes one input") + ", not " +
                       std::to_string(inputs.size()));
  }
}

namespace {

using FirstRule = FirstValues::Rule;

void require(const Node& node, bool right, const char* what) {
  if (!right) complain(node, what);
}

bool both_at_least(const layer::Pair& pair, std::int64_t least) {
  return pair[0] >= least && pair[1] >= least;
}

[[noreturn]] void complain_kernel(const Node& node, const Shape& input) {
  complain(node, "its kernel is larger than its input, " + text_of(input));
}

void check_window(const Node& node, const Window& w) {
  require(node, both_at_least(w.kernel, 1), "its kernel has to be at least 1 x 1");
  require(node, both_at_least(w.stride, 1), "its stride has to be at least 1");
  require(node, both_at_least(w.dilation, 1), "its dilation has to be at least 1");
  require(node, both_at_least(w.padding, 0), "its padding can't be negative");
}

void check_pool(const Node& node, const Window& w) {
  check_window(node, w);
  require(node, w.padding[0] * 2 <= w.kernel[0] && w.padding[1] * 2 <= w.kernel[1],
          "its padding can be half of its kernel at most");
}

// What keeps a divisor from 0 has to do so in float32.
bool is_positive_float(double number) { return number >= std::numeric_limits<float>::min(); }

// That its bytes can be counted, even in float64.
void check_countable(const Node& node, const Shape& shape) {
  std::int64_t left = std::numeric_limits<std::int64_t>::max() / 8;
  for (const std::int64_t extent : shape) left /= std::max<std::int64_t>(extent, 1);
  if (left == 0) complain(node, "can't have so many weights: " + text_of(shape));
}

// Throws unless the kind's numbers make sense.
struct Check {
  const Node& node;
  void operator()(const layer::Convolution& c) const {
    require(node, c.in > 0 && c.out > 0, "needs channels");
    require(node, c.groups > 0 && c.in % c.groups == 0 && c.out % c.groups == 0,
            "its groups have to divide its channels");
    check_window(node, window_of(c));
  }
  void operator()(const layer::Linear& l) const {
    require(node, l.in > 0 && l.out > 0, "needs features");
  }
  void operator()(const layer::BatchNorm& b) const {
    require(node, b.channels > 0, "needs channels");
  }
  void operator()(const layer::LocallyConnected& l) const {
    require(node, l.in > 0 && l.out > 0, "needs channels");
    require(node, both_at_least(l.image, 1), "its image has to be at least 1 x 1");
    check_window(node, window_of(l));
    for (std::size_t d = 0; d < 2; ++d) {
      if (window_of(l).positions(d, l.image[d]) == 0)
        complain_kernel(node, {l.in, l.image[0], l.image[1]});
    }
  }
  void operator()(const layer::MaxPool& p) const { check_pool(node, window_of(p)); }
  void operator()(const layer::AveragePool& p) const { check_pool(node, window_of(p)); }
  void operator()(const layer::L2Pool& p) const {
    check_pool(node, window_of(p));
    require(node, is_positive_float(p.epsilon), "its epsilon has to be positive, also in float32");
  }
  void operator()(const layer::LocalContrastNorm& n) const {
    require(node, both_at_least(n.window, 1) && n.window[0] % 2 == 1 && n.window[1] % 2 == 1,
            "its window has to be of odd numbers of rows and columns");
    require(node, n.deviation >= 0, "its deviation can't be negative");
    require(node, is_positive_float(n.least),
            "its least divisor has to be positive, also in float32");
  }
  void operator()(const layer::AdaptiveAveragePool& p) const {
    require(node, both_at_least(p.size, 1), "its output has to be at least 1 x 1");
  }
  void operator()(const layer::Subsample& s) const {
    require(node, s.channels > 0, "needs channels");
    check_window(node, window_of(s));
  }
  void operator()(const layer::Dropout& d) const {
    require(node, d.probability >= 0 && d.probability < 1,
            "its probability has to be from 0 to less than 1");
  }
  void operator()(const layer::Opaque& o) const {
    require(node, o.output != nullptr, "doesn't say what its output is");
  }
  void operator()(const layer::Relu&) const {}
  void operator()(const layer::Relu6&) const {}
  void operator()(const layer::Sigmoid&) const {}
  void operator()(const layer::Flatten&) const {}
  void operator()(const layer::Add&) const {}
  void operator()(const layer::Concatenate&) const {}
};

void check_image(const Node& node, const Shape& shape, std::int64_t channels) {
  if (shape.size() == 3 && (channels == 0 || shape[0] == channels)) return;
  complain(node, "takes " +
                     (channels == 0 ? "images of channels, height and width"
                                    : "images of " + std::to_string(channels) + " channels") +
                     ", gets " + text_of(shape));
}

Shape windows_output(const Node& node, const Shape& shape, std::int64_t channels, const Window& w) {
  Shape out{channels, 0, 0};
  for (std::size_t d = 0; d < 2; ++d) {
    out[d + 1] = w.positions(d, shape[d + 1]);
    if (out[d + 1] == 0) complain_kernel(node, shape);
  }
  return out;
}

struct Output {
  const Node& node;
  std::span<const Shape> inputs;

  Shape operator()(const layer::Convolution& c) const {
    check_image(node, inputs[0], c.in);
    return windows_output(node, inputs[0], c.out, window_of(c));
  }
  Shape operator()(const layer::Linear& l) const {
    if (inputs[0].empty() || inputs[0].back() != l.in) {
      complain(node, "takes " + std::to_string(l.in) + " features, gets " + text_of(inputs[0]));
    }
    Shape out = inputs[0];
    out.back() = l.out;
    return out;
  }
  Shape operator()(const layer::BatchNorm& b) const {
    check_image(node, inputs[0], b.channels);
    return inputs[0];
  }
  Shape operator()(const layer::LocallyConnected& l) const {
    check_image(node, inputs[0], l.in);
    if (inputs[0][1] != l.image[0] || inputs[0][2] != l.image[1]) {
      complain(node, "is made for images of " + std::to_string(l.image[0]) + " x " +
                         std::to_string(l.image[1]) + ", gets " + text_of(inputs[0]));
    }
    return windows_output(node, inputs[0], l.out, window_of(l));
  }
  Shape operator()(const layer::Relu&) const { return inputs[0]; }
  Shape operator()(const layer::Relu6&) const { return inputs[0]; }
  Shape operator()(const layer::Sigmoid&) const { return inputs[0]; }
  Shape operator()(const layer::LocalContrastNorm&) const {
    check_image(node, inputs[0], 0);
    return inputs[0];
  }
  Shape operator()(const layer::L2Pool& p) const {
    check_image(node, inputs[0], 0);
    return windows_output(node, inputs[0], inputs[0][0], window_of(p));
  }
  Shape operator()(const layer::MaxPool& p) const {
    check_image(node, inputs[0], 0);
    return windows_output(node, inputs[0], inputs[0][0], window_of(p));
  }
  Shape operator()(const layer::AveragePool& p) const {
    check_image(node, inputs[0], 0);
    return windows_output(node, inputs[0], inputs[0][0], window_of(p));
  }
  Shape operator()(const layer::AdaptiveAveragePool& p) const {
    check_image(node, inputs[0], 0);
    return {inputs[0][0], p.size[0], p.size[1]};
  }
  Shape operator()(const layer::Subsample& s) const {
    check_image(node, inputs[0], 0);
    if (inputs[0][0] > s.channels) {
      complain(node, "adds channels up to " + std::to_string(s.channels) + ", gets " +
                         text_of(inputs[0]) + ", which has more");
    }
    return windows_output(node, inputs[0], s.channels, window_of(s));
  }
  Shape operator()(const layer::Flatten&) const { return {elements_of(inputs[0])}; }
  Shape operator()(const layer::Dropout&) const { return inputs[0]; }
  Shape operator()(const layer::Add&) const {
    for (const Shape& shape : inputs) {
      if (shape != inputs[0])
        complain(node, "can't add " + text_of(shape) + " to " + text_of(inputs[0]));
    }
    return inputs[0];
  }
  Shape operator()(const layer::Concatenate& c) const {
    Shape out = inputs[0];
    if (c.dimension >= out.size())
      complain(node, "has no dimension " + std::to_string(c.dimension) + " in " + text_of(out));
    out[c.dimension] = 0;
    for (const Shape& shape : inputs) {
      Shape rest = shape;
      if (rest.size() == out.size()) rest[c.dimension] = out[c.dimension];
      if (rest != out) {
        complain(node, "can't put " + text_of(shape) + " beside " + text_of(inputs[0]) +
                           " in dimension " + std::to_string(c.dimension));
      }
      out[c.dimension] += shape[c.dimension];
    }
    return out;
  }
  Shape operator()(const layer::Opaque& o) const { return o.output(inputs[0]); }
};

// `inputs` and `outputs` of one position, each of which `area` weights connect with one another.
std::pair<FirstValues, FirstValues> first_values(layer::Weights first, std::int64_t inputs,
                                                 std::int64_t outputs, layer::Pair area = {1, 1}) {
  const double each = static_cast<double>(area[0]) * static_cast<double>(area[1]);
  const double in = static_cast<double>(inputs) * each, out = static_cast<double>(outputs) * each;
  const FirstValues usual{FirstRule::uniform, 1 / std::sqrt(in)};
  switch (first) {
    case layer::Weights::fan_in_uniform:
      break;
    case layer::Weights::fan_out_normal:
      return {{FirstRule::normal, std::sqrt(2 / out)}, usual};
    case layer::Weights::small_normal:
      return {{FirstRule::normal, 0.01}, usual};
    case layer::Weights::xavier:
      return {{FirstRule::uniform, std::sqrt(3 / in)}, {FirstRule::zeros, 0}};
    case layer::Weights::sigmoid:
      return {{FirstRule::uniform, 4 * std::sqrt(6 / (in + out))}, {FirstRule::zeros, 0}};
  }
  return {usual, usual};
}

struct TensorList {
  std::vector<TensorInfo> operator()(const layer::Convolution& c) const {
    const std::int64_t in = c.in / c.groups;
    const auto [weight, bias] = first_values(c.first, in, c.out, c.kernel);
    std::vector<TensorInfo> all{{"weight", {c.out, in, c.kernel[0], c.kernel[1]}, weight}};
    if (c.bias) all.push_back({"bias", {c.out}, c.zero_bias ? FirstValues() : bias});
    return all;
  }
  std::vector<TensorInfo> operator()(const layer::LocallyConnected& l) const {
    const auto [weight, bias] = first_values(l.first, l.in, l.out, l.kernel);
    const std::int64_t height = window_of(l).positions(0, l.image[0]);
    const std::int64_t width = window_of(l).positions(1, l.image[1]);
    std::vector<TensorInfo> all{
        {"weight", {height, width, l.out, l.in, l.kernel[0], l.kernel[1]}, weight}};
    if (l.bias) all.push_back({"bias", {height, width, l.out}, bias});
    return all;
  }
  std::vector<TensorInfo> operator()(const layer::Linear& l) const {
    const auto [weight, bias] = first_values(l.first, l.in, l.out);
    std::vector<TensorInfo> all{{"weight", {l.out, l.in}, weight}};
    if (l.bias) all.push_back({"bias", {l.out}, l.zero_bias ? FirstValues() : bias});
    return all;
  }
  std::vector<TensorInfo> operator()(const layer::BatchNorm& b) const {
    const FirstValues zeros{FirstRule::zeros, 0}, ones{FirstRule::ones, 0};
    return {{"weight", {b.channels}, b.first_weight == 0 ? zeros : ones},
            {"bias", {b.channels}, zeros},
            {"running_mean", {b.channels}, zeros, true},
            {"running_var", {b.channels}, ones, true},
            {"num_batches_tracked", {}, zeros, true, true}};
  }
  std::vector<TensorInfo> operator()(const layer::Opaque& o) const { return o.tensors; }
  template <class Other>
  std::vector<TensorInfo> operator()(const Other&) const {
    return {};
  }
};

struct Name {
  const char* operator()(const layer::Convolution&) const { return "convolution"; }
  const char* operator()(const layer::LocallyConnected&) const { return "locally_connected"; }
  const char* operator()(const layer::Linear&) const { return "linear"; }
  const char* operator()(const layer::BatchNorm&) const { return "batch_norm"; }
  const char* operator()(const layer::Relu&) const { return "relu"; }
  const char* operator()(const layer::Relu6&) const { return "relu6"; }
  const char* operator()(const layer::Sigmoid&) const { return "sigmoid"; }
  const char* operator()(const layer::L2Pool&) const { return "l2_pool"; }
  const char* operator()(const layer::LocalContrastNorm&) const { return "local_contrast_norm"; }
  const char* operator()(const layer::MaxPool&) const { return "max_pool"; }
  const char* operator()(const layer::AveragePool&) const { return "average_pool"; }
  const char* operator()(const layer::AdaptiveAveragePool&) const {
    return "adaptive_average_pool";
  }
  const char* operator()(const layer::Subsample&) const { return "subsample"; }
  const char* operator()(const layer::Flatten&) const { return "flatten"; }
  const char* operator()(const layer::Dropout&) const { return "dropout"; }
  const char* operator()(const layer::Add&) const { return "add"; }
  const char* operator()(const layer::Concatenate&) const { return "concatenate"; }
  const char* operator()(const layer::Opaque&) const { return "opaque"; }
};

}  // namespace

const char* kind_name(const Node& node) { return std::visit(Name{}, node.kind); }

std::vector<TensorInfo> tensors_of(const Node& node) {
  std::visit(Check{node}, node.kind);
  std::vector<TensorInfo> all = std::visit(TensorList{}, node.kind);
  for (TensorInfo& tensor : all) {
    check_countable(node, tensor.shape);
    if (!node.name.empty()) tensor.name = node.name + "." + tensor.name;
    if (node.module != nullptr) tensor.first = {FirstRule::as_made, 0};
  }
  return all;
}

Shape output_shape(const Node& node, std::span<const Shape> inputs) {
  std::visit(Check{node}, node.kind);
  check_inputs(node, inputs);
  return std::visit(Output{node, inputs}, node.kind);
}

std::int64_t macs(const Node& node, std::span<const Shape> inputs) {
  const Shape output = output_shape(node, inputs);
  if (const auto* c = std::get_if<layer::Convolution>(&node.kind))
    return elements_of(output) * (c->in / c->groups) * c->kernel[0] * c->kernel[1];
  if (const auto* l = std::get_if<layer::LocallyConnected>(&node.kind))
    return elements_of(output) * l->in * l->kernel[0] * l->kernel[1];
  if (const auto* l = std::get_if<layer::Linear>(&node.kind)) return elements_of(output) * l->in;
  if (const auto* o = std::get_if<layer::Opaque>(&node.kind))
    return o->macs ? o->macs(inputs[0]) : 0;
  return 0;
}

}  // namespace convoy::model
