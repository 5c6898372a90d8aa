// A fully connected layer as one call of torch::linear.
#pragma once

#include <torch/torch.h>

namespace convoy::model {

// torch::nn::Linear, from parameters' names and first values to results, but for its forward: that
// one calls addmm or matmul with a transposed view of the weight, in which nobody can recognize a
// layer. This one calls torch::linear, whose gradient data-parallel training computes where it is
// reduced (parallel::ReducerOptions::compute_in_buckets).
class LinearImpl : public torch::nn::Cloneable<LinearImpl> {
 public:
  LinearImpl(std::int64_t in_features, std::int64_t out_features)
      : LinearImpl(torch::nn::LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const torch::nn::LinearOptions& layer_options);
  // Leaves the first values unset: somebody else sets them.
  struct Unset {};
  LinearImpl(const torch::nn::LinearOptions& layer_options, Unset);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  // [.., in_features] -> [.., out_features]
  // Not const: Sequential takes no such forward.
  torch::Tensor forward(const torch::Tensor& input) { return torch::linear(input, weight, bias); }

  torch::nn::LinearOptions options;
  torch::Tensor weight;  // [out_features, in_features]
  torch::Tensor bias;    // [out_features], or undefined
};
TORCH_MODULE(Linear);

}  // namespace convoy::model
