// Whether a network's values are numbers.
#pragma once

#include <torch/torch.h>

#include <set>
#include <string>

#include "convoy/comm/communicator.h"

namespace convoy::train {

// Whether no value is infinite or no number; true also of types that have no such values. Reads
// each once. REQUIRES: no gradients are recorded.
bool has_finite_values(const torch::Tensor& values);

// Buffers of the module that have values which are not finite: of one that nothing was trained of,
// those that are meant to, as masks of attention.
std::set<std::string> buffers_not_finite(const torch::nn::Module& module);

// The first parameter or buffer of the module, but for buffers that are `meant`, that has a value
// which isn't finite; "" if there is none. Reads each value once.
std::string first_not_finite(const torch::nn::Module& module, const std::set<std::string>& meant);

// What the first rank says that says anything, on every rank. Collective.
std::string first_said(const comm::Communicator& communicator, const std::string& own);

}  // namespace convoy::train
