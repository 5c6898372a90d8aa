// layer::LocalContrastNorm, computed.
#pragma once

#include <torch/torch.h>

#include "convoy/model/layers.h"

namespace convoy::model {

// [N, channels, height, width]. Computes and returns float32 for half-precision inputs. Keeps its
// output for the gradient, and sigma, which is one channel. Has no second derivative: says so.
torch::Tensor local_contrast_norm(const torch::Tensor& input, const layer::LocalContrastNorm& norm);

}  // namespace convoy::model
