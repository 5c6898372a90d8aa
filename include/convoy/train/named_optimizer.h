// An optimizer made from a recipe, with its state under the names of parameters.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/gradient_reducer.h"
#include "convoy/train/recipe.h"
#include "convoy/train/state.h"
#include "convoy/train/update_rule.h"

namespace convoy::train {

class GroupedOptimizer;

class NamedOptimizer {
 public:
  // Takes parameters that require a gradient, in groups as the recipe says: all of a network's, or
  // those of a part of it. A plugin's optimizer has to be brought along:
  // TrainerContext::make_optimizer does it.
  NamedOptimizer(const OptimizerRecipe& recipe, std::vector<parallel::NamedTensor> parameters,
                 const OptimizerFactory& plugin = {});
  // Is for a strategy that does something else in the place of an update: `scales` are those of the
  // groups that it has, `parameters` all of theirs.
  NamedOptimizer(std::string name, std::vector<parallel::NamedTensor> parameters,
                 std::vector<double> scales, std::unique_ptr<GroupedOptimizer> optimizer);
  ~NamedOptimizer();
  NamedOptimizer(NamedOptimizer&&) noexcept;
  NamedOptimizer& operator=(NamedOptimizer&&) noexcept;

  // Sets the rate of all groups, times each one's scale.
  void set_learning_rate(double lr);
  // Sets the weight decay of each group to what this makes of the scale of its rate and of the
  // decay that the recipe gives it. Not of a plugin's optimizer, nor of a strategy's: these throw
  // std::logic_error.
  void set_weight_decay(const std::function<double(double scale, double own)>& decay_of);
  // Says of which parameters this rank holds only a part, or nothing, where the other `ranks` hold
  // the rest. An optimizer that goes by norms of whole parameters (LARS, LAMB) adds up their
  // squares over these ranks in each step(), which is collective then; for others nothing is
  // exchanged. Collective.
  void set_divided(const comm::Communicator& ranks, const std::vector<std::string>& names);
  void zero_grad();
  void step();

  // Saves slots as "<slot>/<parameter>", and the count of updates as numbers["optimizer.step"].
  void save(State& state) const;
  // Throws UsageError when there are slots that the optimizer doesn't have, or of other shapes.
  // Slots that are not there begin anew.
  void load(const State& state);

 private:
  std::string name_;
  std::vector<parallel::NamedTensor> parameters_;
  std::vector<double> scales_;  // of the optimizer's groups
  std::vector<double> decays_;  // theirs, in the recipe
  std::unique_ptr<GroupedOptimizer> optimizer_;
};

}  // namespace convoy::train
