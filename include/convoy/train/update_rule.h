// An optimizer of one's own: how a parameter changes with its gradient.
//
// Everything else is Convoy's: groups of parameters, the learning rate's schedule, clipping, and
// the state, which checkpoints keep under the names of parameters and in slices of them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/train/vocabulary.h"

namespace convoy::train {

// This is one parameter, in one update. On ranks that hold a part of it, all of these are of that
// part.
struct ParameterUpdate {
  const std::string& name;         // in the model
  torch::Tensor parameter;         // to be changed in place
  torch::Tensor gradient;          // of the whole batch, after clipping; may be overwritten
  std::span<torch::Tensor> slots;  // in the order of UpdateRule::slots(), to be changed in place
  std::int64_t step;               // updates of this parameter with this one: 1, 2, ...
  double lr;                       // by the schedule and the parameter's group
};

// This is a rule with the values of one group of parameters. It is called from one thread, and is
// the same on every rank that holds the parameter, so what it does may depend on nothing else.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Gives what is kept of each parameter from update to update, by name ("momentum"): tensors of
  // the parameter's shape, type and layout, which begin with zeros. The same names in all groups.
  virtual std::vector<std::string> slots() const { return {}; }

  // No gradients are recorded meanwhile. Parameters without a gradient are left out.
  virtual void update(const ParameterUpdate& u) const = 0;
};

// Makes the rule of a group. Throws UsageError for values that make no sense: that is said together
// with other mistakes of a recipe, before anything is opened.
using OptimizerFactory = std::function<std::unique_ptr<UpdateRule>(const OptimizerRequest&)>;

}  // namespace convoy::train
