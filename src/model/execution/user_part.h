// A module of the user's that computes a part of its layer (PartModule in model/modules.h).
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "convoy/model/layers.h"
#include "convoy/model/modules.h"
#include "model/execution/gradient_in_pieces.h"

namespace convoy::model {

// The node without its module, and without what its statement has of it: to ask about regions.
Node as_data(Node node, const Shape& output);

// Throws UsageError, beginning with `who`, where a part of an output is stated to need what is not
// in `held`, which is stated to be enough for more than that part.
void check_requires_no_more(const std::string& who, const Slice& out, const Slice& needed,
                            const Slice& held);

class UserPart {
 public:
  // With a copy of the node's module that has of each of tensors_of(node) what `held` says. `input`
  // and `output` are the layer's shapes; messages begin with `who`. Throws UsageError for a module
  // that can't be copied, or computes no parts.
  UserPart(const Node& node, const Shape& input, const Shape& output, std::vector<Slice> held,
           std::string who);

  // x [N, box.size...] -> [N, out.size...]; `box` is what the layer states to require for `out`.
  // Throws UsageError naming both where that can't be computed, or has another shape.
  // Where `out` is computed in pieces, gradients of parameters go into `pieces`.
  torch::Tensor operator()(const torch::Tensor& x, const Slice& box, const Slice& out,
                           GradientInPieces* pieces = nullptr) const;

  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  // Gives the tensors in the order of tensors_of(node), cut to what is held.
  const std::vector<torch::Tensor>& tensors() const { return tensors_; }

 private:
  Node node_;  // as data
  std::vector<Shape> inputs_;
  std::vector<Slice> held_;
  std::string who_;
  std::shared_ptr<torch::nn::Module> module_;
  PartModule* parts_ = nullptr;     // the module
  std::vector<std::string> names_;  // of its tensors, in it
  std::vector<torch::Tensor> tensors_;
};

}  // namespace convoy::model
