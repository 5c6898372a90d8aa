#include "model/execution/convolution.h"

namespace convoy::model {

ConvolutionImpl::ConvolutionImpl(const layer::Convolution& numbers)
    : torch::nn::Module("Convolution"), numbers_(numbers) {
  weight = register_parameter("weight", torch::empty({numbers.out, numbers.in / numbers.groups,
                                                      numbers.kernel[0], numbers.kernel[1]}));
  bias = register_parameter("bias", numbers.bias ? torch::empty({numbers.out}) : torch::Tensor(),
                            numbers.bias);
}

void ConvolutionImpl::pretty_print(std::ostream& stream) const {
  stream << "convoy::model::Convolution(" << numbers_.in << ", " << numbers_.out
         << ", kernel=" << numbers_.kernel[0] << "x" << numbers_.kernel[1] << ")";
}

}  // namespace convoy::model
