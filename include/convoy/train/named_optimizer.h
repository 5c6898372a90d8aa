// A LibTorch optimizer made from a recipe, with its state under the names of parameters.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "convoy/parallel/gradient_reducer.h"
#include "convoy/train/recipe.h"
#include "convoy/train/state.h"

namespace convoy::train {

class NamedOptimizer {
 public:
  // Parameters that require a gradient, in groups as the recipe says. Throws UsageError when a
  // pattern of a group fits no parameter.
  NamedOptimizer(const OptimizerRecipe& recipe, std::vector<parallel::NamedTensor> parameters);

  // The rate of all groups, times each one's scale.
  void set_learning_rate(double lr);
  void zero_grad() { optimizer_->zero_grad(); }
  void step() { optimizer_->step(); }

  // Slots as "<slot>/<parameter>"; the count of updates as numbers["optimizer.step"].
  void save(State& state) const;
  // Throws UsageError when slots are missing or have other shapes.
  void load(const State& state);

 private:
  struct Slot {
    std::string name;
    torch::Tensor* tensor;
  };
  // The slots of a parameter, made when they are not there; empty for rules without state.
  std::vector<Slot> slots(const torch::Tensor& parameter, bool make) const;
  std::int64_t steps(const torch::Tensor& parameter) const;
  void set_steps(const torch::Tensor& parameter, std::int64_t steps);

  OptimizerRecipe recipe_;
  std::vector<parallel::NamedTensor> parameters_;
  std::vector<double> scales_;  // of the optimizer's groups
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace convoy::train
