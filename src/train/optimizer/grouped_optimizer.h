// What a NamedOptimizer works with: LibTorch's rules, or a plugin's. Private to the train layer.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/optim/rule.h"
#include "convoy/parallel/gradient_reducer.h"
#include "convoy/train/recipe.h"
#include "convoy/train/update_rule.h"

namespace convoy::train {

class GroupedOptimizer {
 public:
  virtual ~GroupedOptimizer() = default;
  virtual void set_learning_rate(std::size_t group, double lr) = 0;
  virtual void set_weight_decay(std::size_t /*group*/, double /*decay*/) {
    throw std::logic_error("the weight decay of this optimizer stays what it was made with");
  }
  // Whether the rule goes by norms of whole parameters. If so it is told of which parameters this
  // rank holds a part only, and how to add up what the ranks with the others have: `sum` adds
  // squares of all divided parameters in place, in the order of `names`, which ascend and are
  // the same on all of them. step() is collective over these ranks then.
  virtual bool layerwise() const { return false; }
  using Sum = std::function<void(std::vector<optim::Squares>& squares)>;
  virtual void set_divided(std::vector<std::string> /*names*/, Sum /*sum*/) {}
  virtual void zero_grad() = 0;
  virtual void step() = 0;
  // What is kept of each parameter.
  virtual std::vector<std::string> slot_names() const = 0;
  // Gives what one parameter has in these slots: tensors of its shape, or undefined ones. A
  // parameter that was never updated has nothing, unless it is to be made.
  virtual std::vector<torch::Tensor*> slots(const torch::Tensor& parameter, bool make) = 0;
  // Updates of the parameter so far; 0 for rules that don't count them.
  virtual std::int64_t steps(const torch::Tensor& parameter) = 0;
  virtual void set_steps(const torch::Tensor& parameter, std::int64_t steps) = 0;
};

struct ParameterGroup {
  OptimizerRecipe values;  // with the group's own weight decay
  std::vector<parallel::NamedTensor> parameters;
};
using ParameterGroups = std::vector<ParameterGroup>;  // at least one

// Makes an optimizer of one of Convoy's rules, see has_rule(): by the rule, whatever its name.
std::unique_ptr<GroupedOptimizer> make_built_in_optimizer(const ParameterGroups& groups);
std::unique_ptr<GroupedOptimizer> make_velocity_optimizer(const ParameterGroups& groups);
std::unique_ptr<GroupedOptimizer> make_layerwise_optimizer(const ParameterGroups& groups);
std::unique_ptr<GroupedOptimizer> make_rule_optimizer(const ParameterGroups& groups,
                                                      const OptimizerFactory& make);

// A plugin's rule with the weight decay of a group. Throws UsageError when there is none, or when
// its slots have no proper names.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerRecipe& values,
                                             const OptimizerFactory& make);

// Throws UsageError when a group of the recipe fits none of the parameters that the ranks have, or
// there is nothing to train at all. Collective.
void check_groups(const comm::Communicator& communicator, const OptimizerRecipe& recipe,
                  const std::vector<parallel::NamedTensor>& parameters);

}  // namespace convoy::train
