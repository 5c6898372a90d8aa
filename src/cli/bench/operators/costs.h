// What an operator of LibTorch has to compute and to move at least, from its name and the shapes of
// its tensors. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::cli::operators {

// This is a tensor that an operator takes or gives.
struct Operand {
  bool defined = false;  // false: it holds the place of one that is not there
  std::vector<std::int64_t> sizes = {};
  std::int64_t bytes = 0;         // of its different elements: an expanded dimension counts once
  const void* storage = nullptr;  // tells views of the same memory
  std::int64_t offset = 0;        // of its first element in that
};

// This is one call. Operands are in the order of the operator's schema, tensors alone; outputs that
// were not asked for, as a gradient of images, are there and not defined.
struct Call {
  std::string name;      // "aten::convolution_backward"
  std::string overload;  // "out"
  std::vector<Operand> inputs = {};
  std::vector<Operand> outputs = {};
};

struct OperatorCost {
  std::int64_t flops = 0;  // of convolutions, matrix products and attention; 0 for others
  std::int64_t bytes = 0;  // inputs read once, outputs written once; 0 for views
  bool operator==(const OperatorCost&) const = default;
};

// A multiplication with its addition counts 2 FLOPs, as padding's do; additions of biases don't
// count. The gradients of a convolution cost as much as its forward, each of the two that was asked
// for. Attention has its two products, each with two gradients in its backward, and what backward
// computes once more does not count.
OperatorCost cost_of(const Call& call);

// Gives "convolution", "matrix product", "attention", "batch norm", "activation", "addition",
// "pooling", "loss", "copy", "view" or "other"; backward operators have the kind of their forward,
// but that those of views are copies.
std::string_view kind_of(std::string_view name);

// Gives the sizes by which calls are told apart, "8x64x56x56 * 64x64x3x3": those of what it
// computes with, or of its first input.
std::string shapes_of(const Call& call);

}  // namespace convoy::cli::operators
