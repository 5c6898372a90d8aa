#include "convoy/train/optimizer_rule.h"

#include <fnmatch.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/train/downpour.h"
#include "train/recipe/kinds.h"

namespace convoy::train {
namespace {

bool fits(const ParameterGroupRecipe& group, const std::string& name, std::int64_t dimensions) {
  if (group.max_dims > 0 && dimensions > group.max_dims) return false;
  if (group.parameters.empty()) return true;
  return std::any_of(
      group.parameters.begin(), group.parameters.end(),
      [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

// One line for each.
Kinds<OptimizerKind> make_built_in_optimizers() {
  Kinds<OptimizerKind> kinds;
  add_sgd(kinds);
  add_sgd_velocity(kinds);
  add_adam(kinds);
  add_adagrad(kinds);
  add_lars(kinds);
  add_lamb(kinds);
  return kinds;
}

}  // namespace

const Kinds<OptimizerKind>& built_in_optimizers() {
  static const Kinds<OptimizerKind> kinds = make_built_in_optimizers();
  return kinds;
}

OptimizerRecipe with_defaults(OptimizerRecipe recipe) {
  return completed(built_in_optimizers(), std::move(recipe));
}

bool has_rule(const OptimizerRecipe& recipe) {
  const auto kind = meaning_of(built_in_optimizers(), recipe);
  return kind != nullptr && kind->rule != nullptr;
}

optim::Rule optimizer_rule(const OptimizerRecipe& recipe) {
  const OptimizerRecipe r = with_defaults(recipe);
  if (!has_rule(r))
    throw std::logic_error("the optimizer '" + r.name + "' is none of convoy::optim's rules");
  optim::Rule rule = r.kind->rule({r.weight_decay, r.options});
  optim::set_learning_rate(rule, r.lr);
  return rule;
}

std::size_t group_of(const OptimizerRecipe& recipe, const std::string& name,
                     std::int64_t dimensions) {
  for (std::size_t g = 0; g < recipe.groups.size(); ++g) {
    if (fits(recipe.groups[g], name, dimensions)) return g + 1;
  }
  return 0;
}

OptimizerRecipe values_of_group(const OptimizerRecipe& recipe, const ParameterGroupRecipe& group) {
  OptimizerRecipe values = with_defaults(recipe);
  if (group.weight_decay >= 0) values.weight_decay = group.weight_decay;
  if (group.trust_min_dims >= 0 && has_trust_min_dims(values.options))
    values.options.set(kTrustMinDims, group.trust_min_dims);
  return values;
}

optim::Rule parameter_rule(const OptimizerRecipe& recipe, const std::string& name,
                           std::int64_t dimensions) {
  const std::size_t index = group_of(recipe, name, dimensions);
  optim::Rule rule =
      optimizer_rule(index == 0 ? recipe : values_of_group(recipe, recipe.groups[index - 1]));
  if (optim::is_layerwise(rule)) {
    throw UsageError("optimizer.name is '" + recipe.name +
                     "', which goes by norms of whole parameters; servers have slices of them");
  }
  if (index > 0) optim::set_learning_rate(rule, recipe.lr * recipe.groups[index - 1].lr_scale);
  return rule;
}

}  // namespace convoy::train
