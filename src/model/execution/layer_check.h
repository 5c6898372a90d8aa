// What checks of layers share.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/model/stage.h"

namespace convoy::model {

// Added to what is said not to matter, both ways: of maxima only one shows.
inline constexpr double kDisturbances[] = {10, -10};

// The least difference from these values that is none of rounding: disturbances that cancel out
// leave some (a convolution may compute tiles of its output by transforms).
double tolerance_of(const torch::Tensor& values);

// Gives parts of a box that isn't empty: single elements at both ends and in the middle, and a box.
std::vector<Slice> parts_to_try(const Slice& box);

// A layer that is run.
struct RunLayer {
  const Node& node;
  std::span<const Shape> shapes;  // of its inputs
  const Tensors& inputs;
  torch::Tensor output;
  std::function<torch::Tensor(const Tensors& inputs)> run;
};

// Whether its output is what it states: nothing, or what is wrong.
std::optional<std::string> problem_of_output(const RunLayer& layer);
// Says whether it needs no other input for this part of its output than it states, by changing
// everything else: nothing, or what is wrong.
std::optional<std::string> problem_of_required(const RunLayer& layer, const Slice& part);

}  // namespace convoy::model
