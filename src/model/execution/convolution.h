// A convolution of images whose first weights somebody else sets.
#pragma once

#include <torch/torch.h>

#include "convoy/model/layers.h"

namespace convoy::model {

// torch::nn::Conv2d with zero padding, from parameters' names to results; its weights are not
// drawn when it is made.
class ConvolutionImpl : public torch::nn::Module {
 public:
  explicit ConvolutionImpl(const layer::Convolution& numbers);

  torch::Tensor forward(const torch::Tensor& input) {
    return torch::conv2d(input, weight, bias, numbers_.stride, numbers_.padding, numbers_.dilation,
                         numbers_.groups);
  }
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor weight;  // [out, in / groups, height, width]
  torch::Tensor bias;    // [out], or undefined

 private:
  layer::Convolution numbers_;
};
TORCH_MODULE(Convolution);

}  // namespace convoy::model
