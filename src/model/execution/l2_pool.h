// layer::L2Pool, computed.
#pragma once

#include <torch/torch.h>

#include "convoy/model/layers.h"

namespace convoy::model {

// [N, channels, height, width]. Computes and returns float32 for half-precision inputs. Keeps its
// input and output for the gradient.
torch::Tensor l2_pool(const torch::Tensor& input, const layer::L2Pool& pool);

}  // namespace convoy::model
