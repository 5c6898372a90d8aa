// Whether a network's values are numbers.
#pragma once

#include <torch/torch.h>

#include <string>

#include "convoy/comm/communicator.h"

namespace convoy::train {

// The first parameter or buffer of the module that has a value which isn't finite; "" if there is
// none. Reads each value once.
std::string first_not_finite(const torch::nn::Module& module);

// The same for modules of several ranks, which may hold different parts: the name that the first
// rank finds, on every rank. Collective.
std::string first_not_finite(const comm::Communicator& communicator,
                             const torch::nn::Module& module);

}  // namespace convoy::train
