// The memory layout of a model's weights.
#pragma once

#include <torch/torch.h>

namespace convoy::train {

// Puts every 4-d parameter and buffer into channels-last layout and every 5-d one into
// channels_last_3d, in place: tensors keep their identity, so optimizers made before stay valid.
// Values, names and shapes don't change; what is saved afterwards loads into any layout.
//
// LibTorch's CPU convolutions then skip converting weights and activations back and forth, provided
// that the images come in the same layout: images.contiguous(torch::MemoryFormat::ChannelsLast).
// Activations follow by themselves.
//
// Gradients that exist are converted along. Parameters that are views into a larger buffer move out
// of it, so call this before wrapping the model in a DistributedModel.
void to_channels_last(torch::nn::Module& module);

}  // namespace convoy::train
