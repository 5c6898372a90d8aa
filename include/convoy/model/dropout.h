// Dropout whose masks depend on what is dropped, and on no rank.
#pragma once

#include <torch/torch.h>

#include <string>

#include "convoy/base/slice.h"

namespace convoy::model {

// torch::nn::Dropout, but that in training mode, within a RandomScope (convoy/model/randomness.h),
// unit u of a sample is dropped or not by (seed, step, this layer's name, sample, u) alone. Ranks,
// micro-batches and the memory layout then change nothing. Without a scope it draws from LibTorch's
// generator, as that one does.
//
// A layer that is called twice in a step drops the same units.
class DropoutImpl : public torch::nn::Module {
 public:
  // probability: of dropping a unit, in [0, 1). An unnamed layer is named by name_layers(). Throws
  // UsageError for another probability.
  explicit DropoutImpl(double probability = 0.5, std::string layer = "");

  // [rows, ...]; kept units are divided by (1 - probability). Throws UsageError, within a scope,
  // for a layer without a name, and when the scope's samples don't divide the rows.
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  double probability() const { return probability_; }
  const std::string& layer() const { return layer_; }
  void set_layer(std::string layer) { layer_ = std::move(layer); }

  // From now on the inputs hold only these units of each sample: a part of a tensor of the sample's
  // shape, which is what the whole layer would get.
  void set_part(Slice units);

 private:
  torch::Tensor mask(const torch::Tensor& input) const;

  double probability_;
  std::string layer_;
  Slice part_;  // without a dimension: all units
};
TORCH_MODULE(Dropout);

// Names each Dropout under `network` by its path in it. For networks that register such layers
// themselves; those of a Blueprint have their names.
void name_layers(torch::nn::Module& network);

}  // namespace convoy::model
