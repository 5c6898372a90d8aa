#include "convoy/model/linear.h"

namespace convoy::model {

LinearImpl::LinearImpl(const torch::nn::LinearOptions& layer_options) : options(layer_options) {
  LinearImpl::reset();
}

LinearImpl::LinearImpl(const torch::nn::LinearOptions& layer_options, Unset)
    : options(layer_options) {
  const bool with_bias = options.bias();
  weight =
      register_parameter("weight", torch::empty({options.out_features(), options.in_features()}));
  bias = register_parameter(
      "bias", with_bias ? torch::empty({options.out_features()}) : torch::Tensor(), with_bias);
}

void LinearImpl::reset() {
  const torch::nn::Linear first(options);
  weight = register_parameter("weight", first->weight);
  bias = register_parameter("bias", first->bias, options.bias());
}

void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << "convoy::model::Linear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << std::boolalpha
         << options.bias() << ")";
}

}  // namespace convoy::model
