// layer::LocallyConnected, computed.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "convoy/model/layers.h"
#include "model/execution/gradient_in_pieces.h"

namespace convoy::model {

// Positions of the output that are computed by themselves, others being computed before or after.
struct LocalPiece {
  Slice held;                             // what the parameters are of, of the layer's output
  Slice part;                             // of that, to be computed
  GradientInPieces* gradients = nullptr;  // null: of this piece alone
};

// Computes the positions that these parameters are of (some rows and columns of a layer's, and some
// maps) from an image that is padded already and has just what they see. With `piece`, whose
// dimensions are maps, rows and columns, computes that piece alone.
torch::Tensor locally_connected(const torch::Tensor& image, const torch::Tensor& weight,
                                const torch::Tensor& bias, layer::Pair stride,
                                const LocalPiece* piece = nullptr);

// Weights are not set when it is made. For each position of the output a matrix product of what its
// filters see in each sample, over some positions at a time, so that these copies of the image stay
// within 32 MiB or what one position sees; they are made again for the gradient, which keeps the
// image alone. In half precision the gradient of the image is summed in float32.
class LocallyConnectedImpl : public torch::nn::Module {
 public:
  // `tensors`: the layer's, as tensors_of() has them.
  LocallyConnectedImpl(const layer::LocallyConnected& numbers,
                       const std::vector<TensorInfo>& tensors);

  // [N, in, height, width] -> [N, out, height, width], contiguous
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor weight;  // [height, width, out, in, kernel height, kernel width]
  torch::Tensor bias;    // [height, width, out], or undefined

 private:
  layer::LocallyConnected numbers_;
};

}  // namespace convoy::model
