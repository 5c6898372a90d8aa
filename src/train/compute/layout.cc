#include "convoy/train/layout.h"

namespace convoy::train {
namespace {

void convert(torch::Tensor tensor) {
  if (!tensor.defined() || (tensor.dim() != 4 && tensor.dim() != 5)) return;
  const auto format =
      tensor.dim() == 4 ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::ChannelsLast3d;
  // set_data, not assignment: the tensor object is what optimizers and hooks know.
  tensor.set_data(tensor.detach().contiguous(format));
  if (tensor.grad().defined() && !tensor.grad().is_sparse()) {
    tensor.mutable_grad() = tensor.grad().contiguous(format);
  }
}

}  // namespace

void to_channels_last(torch::nn::Module& module) {
  torch::NoGradGuard no_grad;
  for (const auto& parameter : module.parameters()) convert(parameter);
  for (const auto& buffer : module.buffers()) convert(buffer);
}

}  // namespace convoy::train
