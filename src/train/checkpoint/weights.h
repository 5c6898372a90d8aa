// Files of weights that a network starts from.
#pragma once

#include <string>

#include "convoy/comm/communicator.h"
#include "convoy/train/state.h"

namespace convoy::train {

struct Weights {
  // All that is wanted of the module's tensors, for Strategy::load: what the file doesn't have, or
  // has in another shape, is as it is in the module.
  State state;
  WeightsReport report;
};

// What a plain safetensors file, which every rank sees, has for the modules of the ranks, each of
// which holds the network or a part of it. A rank reads what it wants. The report is that of all
// ranks together, and so is what is wrong. Throws as load_weights does, on every rank. Collective.
Weights read_weights(const comm::Communicator& communicator, const torch::nn::Module& module,
                     const std::string& file, bool partial, const Wanted& wanted);

}  // namespace convoy::train
