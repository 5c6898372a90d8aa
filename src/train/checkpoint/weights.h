// Files of weights that a network starts from.
#pragma once

#include <map>
#include <string>

#include "convoy/comm/communicator.h"
#include "convoy/train/state.h"

namespace convoy::train {

struct Weights {
  // All that is wanted of the module, for Strategy::load: its own tensors, into which the file was
  // read. What that doesn't have, or has in another shape, is as it was.
  State state;
  WeightsReport report;
  std::map<std::string, std::string> metadata;  // of the file
};

// What a plain safetensors file, which every rank sees, has for the modules of the ranks, each of
// which holds the network or a part of it. A rank reads what it wants, of tensors that have the
// dimensions of its own; `wanted` is asked for no others. A tensor that doesn't fit on one rank, or
// of which some is on no rank, is taken on none. The report is that of all ranks together, and so
// is what is wrong. Throws as load_weights does, on every rank. Collective.
Weights read_weights(const comm::Communicator& communicator, const torch::nn::Module& module,
                     const std::string& path, bool partial, const Wanted& wanted);

}  // namespace convoy::train
