// What stands in the place of a recipe's optimizer where servers apply the rule.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convoy/train/named_optimizer.h"

namespace convoy::train {

// The state of the rule for each parameter, as a checkpoint has it, where somebody wants it.
struct RuleStates {
  std::vector<std::string> names;  // of the slots
  bool counts = false;             // the rule counts updates
  std::vector<parallel::NamedTensor> parameters;
  std::map<const void*, std::vector<torch::Tensor>> slots;  // by parameter
  std::map<const void*, std::int64_t> steps;
};

struct UpdateCalls {
  std::function<void(double lr)> set_learning_rate;
  std::function<void()> step;  // .grad holds the gradients
};

// An optimizer that only tells. Its state is `states`.
NamedOptimizer make_telling_optimizer(const OptimizerRecipe& recipe,
                                      std::vector<parallel::NamedTensor> parameters,
                                      std::shared_ptr<RuleStates> states, UpdateCalls calls);

}  // namespace convoy::train
