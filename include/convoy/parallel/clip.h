// The norm of gradients of a model that is on several ranks.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "convoy/comm/communicator.h"

namespace convoy::parallel {

// The squared Euclidean norm of these parameters' gradients together, summed in double. Those
// without a gradient count nothing.
double gradient_square(const std::vector<at::Tensor>& parameters);

// Scales gradients down so that the Euclidean norm of all of them together is at most max_norm, and
// returns the norm before; both are the same on every rank of `partitions`, which hold the model
// together. `own` are this rank's parameters, or its parts of them; `replicated` those that every
// rank holds alike, gradients included: they count once. Parameters without a gradient count
// nothing. With max_norm = 0 nothing is scaled. Summed in double. Collective.
double clip_grad_norm(const comm::Communicator& partitions, const std::vector<at::Tensor>& own,
                      const std::vector<at::Tensor>& replicated, double max_norm);

}  // namespace convoy::parallel
