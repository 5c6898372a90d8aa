// Gradients on their way through autograd's graph.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/torch.h>

#include <functional>

namespace convoy::train {

// Gets the gradients that come into a node, with respect to what its operation has put out, and
// those that it makes of them. Some may be undefined.
using SawGradients = std::function<void(const torch::autograd::Node& node,
                                        const torch::autograd::variable_list& incoming,
                                        const torch::autograd::variable_list& outgoing)>;

// Calls `saw` in the backward pass from this root, after each node but those that accumulate the
// gradients of parameters: in the order of the pass, from the threads that run it. For as long as
// the graph lives. `saw` must not throw.
void hook_gradients(const torch::Tensor& root, SawGradients saw);

}  // namespace convoy::train
