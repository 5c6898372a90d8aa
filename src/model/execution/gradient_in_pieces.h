// The gradient of a parameter of which a layer reads pieces, one after the other.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/slice.h"

namespace convoy::model {

// Autograd's gradient of a view is as large as what is viewed: a layer that computes its output in
// three pieces would make three gradients as large as its parameters. Here those of all pieces are
// put into one tensor, which is the parameter's when the last of them has come.
//
// Of a layer's parameters, in one pass: lives until backward is over, which has to reach all pieces
// that something was computed of, or none of them. One thread.
class GradientInPieces {
 public:
  GradientInPieces();
  ~GradientInPieces();
  GradientInPieces(const GradientInPieces&) = delete;
  GradientInPieces& operator=(const GradientInPieces&) = delete;

  // `part` of `whole`, which holds `held`: the same memory.
  torch::Tensor cut(const torch::Tensor& whole, const Slice& held, const Slice& part);
  // In backward: where the gradient of a piece that cut() returned belongs. Who writes it there and
  // gives autograd this very tensor saves its memory. Undefined where it has to be added to others.
  torch::Tensor place_of(const torch::Tensor& piece);
  // After backward: a parameter whose gradient is lost, since backward has reached only some of its
  // pieces; empty: none.
  std::string unfinished() const;

 private:
  friend struct CutPiece;
  class Sum;
  std::vector<std::unique_ptr<Sum>> sums_;  // by parameter
};

}  // namespace convoy::model
