#include "cli/bench/operators/costs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace convoy::cli::operators {
namespace {

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::string_view kBackward = "_backward";

// "aten::relu_" and "aten::relu" are the same, and "aten::_log_softmax_backward_data" is
// "_log_softmax".
std::string_view base_of(std::string_view name) {
  if (const std::size_t colons = name.rfind("::"); colons != name.npos)
    name.remove_prefix(colons + 2);
  name = name.substr(0, name.find(kBackward));
  while (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

constexpr std::array<std::string_view, 10> kProducts{
    "mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "mkldnn_linear", "mv", "addmv", "dot"};
constexpr std::array<std::string_view, 13> kActivations{
    "relu", "relu6", "threshold", "hardtanh",  "sigmoid",   "tanh",      "gelu",
    "silu", "elu",   "clamp",     "clamp_min", "hardswish", "leaky_relu"};
constexpr std::array<std::string_view, 13> kCopies{
    "copy",  "clone", "contiguous", "to",        "_to_copy",   "fill",           "zero",
    "zeros", "cat",   "pad",        "ones_like", "zeros_like", "constant_pad_nd"};
constexpr std::array<std::string_view, 18> kViews{
    "view",   "reshape", "flatten",   "t",          "transpose",    "permute",
    "detach", "expand",  "expand_as", "slice",      "select",       "narrow",
    "alias",  "squeeze", "unsqueeze", "as_strided", "_unsafe_view", "view_as"};
// Memory that nobody has written yet.
constexpr std::array<std::string_view, 5> kEmpty{"empty", "empty_like", "empty_strided",
                                                 "new_empty", "resize"};
// What these compute in place doesn't depend on what was there.
constexpr std::array<std::string_view, 5> kOverwrite{"copy", "fill", "zero", "normal", "uniform"};

std::int64_t elements(const Operand& operand) {
  std::int64_t count = 1;
  for (const std::int64_t size : operand.sizes) count *= size;
  return count;
}

bool is_defined(const std::vector<Operand>& operands, std::size_t i) {
  return i < operands.size() && operands[i].defined;
}

bool is_convolution(std::string_view name) { return kind_of(name) == "convolution"; }
bool is_attention(std::string_view name) { return kind_of(name) == "attention"; }
bool is_backward(std::string_view name) { return has(name, kBackward); }

// Multiplications with additions of a convolution whose outputs are these.
std::int64_t macs_of(const Operand& outputs, const Operand& weight) {
  if (weight.sizes.empty() || weight.sizes[0] == 0) return 0;
  return elements(outputs) * (elements(weight) / weight.sizes[0]);
}

std::int64_t convolution_flops(const Call& call) {
  if (!is_backward(call.name)) {
    if (!is_defined(call.outputs, 0) || !is_defined(call.inputs, 1)) return 0;
    return 2 * macs_of(call.outputs[0], call.inputs[1]);
  }
  // Its inputs are gradient, input, weight; its outputs their gradients.
  if (!is_defined(call.inputs, 0) || !is_defined(call.inputs, 2)) return 0;
  const int gradients = is_defined(call.outputs, 0) + is_defined(call.outputs, 1);
  return 2 * gradients * macs_of(call.inputs[0], call.inputs[2]);
}

// The first of the two factors: before them the others take what is added.
std::size_t first_factor(std::string_view base) {
  return base == "addmm" || base == "baddbmm" || base == "addmv" ? 1 : 0;
}

std::int64_t product_flops(const Call& call) {
  const std::size_t first = first_factor(base_of(call.name));
  if (is_backward(call.name) || !is_defined(call.inputs, first) || !is_defined(call.outputs, 0))
    return 0;
  const Operand& factor = call.inputs[first];
  return factor.sizes.empty() ? 0 : 2 * elements(call.outputs[0]) * factor.sizes.back();
}

// Where an attention has query [.., L, E], key [.., S, E] and value [.., S, V].
std::size_t first_of_attention(std::string_view name) { return is_backward(name) ? 1 : 0; }

std::int64_t attention_flops(const Call& call) {
  const std::size_t first = first_of_attention(call.name);
  for (std::size_t i = first; i < first + 3; ++i)
    if (!is_defined(call.inputs, i) || call.inputs[i].sizes.size() < 2) return 0;
  const Operand& query = call.inputs[first];
  const std::vector<std::int64_t>& value = call.inputs[first + 2].sizes;
  const std::int64_t width = query.sizes.back();
  if (width == 0) return 0;
  const std::int64_t seen = value[value.size() - 2];
  const std::int64_t macs = elements(query) / width * seen * (width + value.back());
  return 2 * macs * (is_backward(call.name) ? 2 : 1);
}

bool share(const Operand& a, const Operand& b) {
  return a.storage != nullptr && a.storage == b.storage;
}

bool is_among(const Operand& one, std::span<const Operand> others) {
  return std::any_of(others.begin(), others.end(),
                     [&one](const Operand& other) { return share(one, other); });
}

// One of the others is the same memory: parts of one storage, as query, key and value of an
// attention are, are each read.
bool is_repeated(const Operand& one, std::span<const Operand> others) {
  return std::any_of(others.begin(), others.end(), [&one](const Operand& other) {
    return share(one, other) && one.offset == other.offset && one.bytes == other.bytes;
  });
}

// Of a pooling's input, its backward needs no more than the shape.
bool is_shape_alone(const Call& call, std::size_t input) {
  return input == 1 && is_backward(call.name) && kind_of(call.name) == "pooling";
}

std::int64_t bytes_of(const Call& call) {
  const std::string_view base = base_of(call.name);
  if (is_one_of(base, kEmpty)) return 0;
  const bool out = has(call.overload, "out") || has(call.overload, "grad_input");
  const bool in_place = call.name.ends_with('_');
  std::int64_t written = 0;
  bool computed = call.outputs.empty();  // a number, say
  for (const Operand& output : call.outputs) {
    if (!output.defined) continue;
    if (!out && !in_place && is_among(output, call.inputs)) continue;
    written += output.bytes;
    computed = true;
  }
  // Outside the memory that it was given, a view is a copy, as those of "reshape" may be.
  if (!computed || (in_place && kind_of(call.name) == "view")) return 0;
  std::int64_t read = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Operand& input = call.inputs[i];
    if (!input.defined) continue;
    if (out && is_repeated(input, call.outputs)) continue;
    if (in_place && i == 0 && is_one_of(base, kOverwrite)) continue;
    if (is_shape_alone(call, i) || is_repeated(input, std::span(call.inputs).first(i))) continue;
    read += input.bytes;
  }
  return read + written;
}

std::string size_text(const Operand& operand) {
  if (!operand.defined) return "-";
  if (operand.sizes.empty()) return "1";
  std::string text;
  for (const std::int64_t size : operand.sizes)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

}  // namespace

std::string_view kind_of(std::string_view name) {
  const std::string_view base = base_of(name);
  if (has(base, "conv") && !has(base, "convert")) return "convolution";
  if (is_one_of(base, kProducts)) return "matrix product";
  if (has(base, "scaled_dot_product")) return "attention";
  if (has(base, "batch_norm")) return "batch norm";
  if (has(base, "pool")) return "pooling";
  if (has(base, "loss") || has(base, "softmax")) return "loss";
  if (is_one_of(base, kActivations)) return "activation";
  if (base == "add" || base == "sub") return "addition";
  if (is_one_of(base, kCopies)) return "copy";
  if (is_one_of(base, kViews)) return is_backward(name) ? "copy" : "view";
  return "other";
}

OperatorCost cost_of(const Call& call) {
  const std::string_view kind = kind_of(call.name);
  OperatorCost cost{0, bytes_of(call)};
  if (kind == "convolution") cost.flops = convolution_flops(call);
  if (kind == "matrix product") cost.flops = product_flops(call);
  if (kind == "attention") cost.flops = attention_flops(call);
  return cost;
}

std::string shapes_of(const Call& call) {
  const std::string_view kind = kind_of(call.name);
  std::size_t first = 0, count = 1;
  if (is_convolution(call.name)) {
    first = is_backward(call.name) ? 1 : 0;
    count = 2;
  } else if (kind == "matrix product") {
    first = first_factor(base_of(call.name));
    count = 2;
  } else if (is_attention(call.name)) {
    first = first_of_attention(call.name);
    count = 2;
  }
  std::string text;
  for (std::size_t i = first; i < std::min(first + count, call.inputs.size()); ++i)
    text += (text.empty() ? "" : " * ") + size_text(call.inputs[i]);
  return text;
}

}  // namespace convoy::cli::operators
