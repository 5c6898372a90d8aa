// The norm of gradients of a model that is on several ranks.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/gradient_reducer.h"

namespace convoy::parallel {

// Gives the squared Euclidean norm of these parameters' gradients together: to some six digits
// where they are float, summed in double. Those without a gradient count nothing. Depends on the
// gradients alone, whatever the number of threads. Reads each once.
double gradient_square(const std::vector<at::Tensor>& parameters);

// Scales gradients down so that the Euclidean norm of all of them together is at most max_norm, and
// returns the norm before; both are the same on every rank of `partitions`, which hold the model
// together. `own` are this rank's parameters, or its parts of them; `replicated` those that every
// rank holds alike, gradients included: they count once. Parameters without a gradient count
// nothing. With max_norm = 0, and where the norm is not finite, nothing is scaled. Summed as above.
// Collective.
double clip_grad_norm(const comm::Communicator& partitions, const std::vector<at::Tensor>& own,
                      const std::vector<at::Tensor>& replicated, double max_norm);

// Does the same for a model that this rank holds whole.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm);

// Gives the last of these parameters whose gradient has a norm that is not finite; "" if none has.
// Where they are in the order of their layers, backward came to it first, and the others have it
// from there.
std::string last_not_finite(const std::vector<NamedTensor>& parameters);

}  // namespace convoy::parallel
