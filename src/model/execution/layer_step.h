// A layer that computes.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

#include "convoy/model/layers.h"
#include "convoy/model/stage.h"

namespace convoy::model {

struct LayerStep {
  std::shared_ptr<torch::nn::Module> module;  // null: nothing to keep
  // Writes over the first input if told to, and if the kind can.
  std::function<torch::Tensor(const Tensors& inputs, bool in_place)> compute;
};

// Makes a step with weights that are not set yet, or with the user's module or a copy of it. Throws
// UsageError for a module that can't be copied, and for one that is missing.
LayerStep make_layer_step(const Node& node, bool copy_user_module);

// Copies the user's module. Throws UsageError as above. REQUIRES: there is one.
torch::nn::AnyModule copy_of(const Node& node);

}  // namespace convoy::model
