#include "convoy/train/named_optimizer.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "convoy/base/error.h"
#include "convoy/train/optimizer_rule.h"
#include "train/optimizer/grouped_optimizer.h"

namespace convoy::train {
namespace {

std::size_t group_of(const OptimizerRecipe& recipe, const parallel::NamedTensor& parameter) {
  return train::group_of(recipe, parameter.name, parameter.tensor.dim());
}

std::unique_ptr<GroupedOptimizer> make(const ParameterGroups& groups,
                                       const OptimizerFactory& plugin) {
  const OptimizerRecipe& values = groups.front().values;
  if (has_rule(values)) return make_built_in_optimizer(groups);
  if (plugin) return make_rule_optimizer(groups, plugin);
  throw std::logic_error("the optimizer '" + values.name +
                         "' is a plugin's: TrainerContext::make_optimizer makes it");
}

}  // namespace

void check_groups(const comm::Communicator& communicator, const OptimizerRecipe& recipe,
                  const std::vector<parallel::NamedTensor>& parameters) {
  std::vector<double> counts(recipe.groups.size() + 1);
  for (const auto& parameter : parameters) {
    if (parameter.tensor.requires_grad()) ++counts[group_of(recipe, parameter)];
  }
  communicator.allreduce(comm::buffer_of(counts), comm::ReduceOp::sum);
  if (std::all_of(counts.begin(), counts.end(), [](double count) { return count == 0; }))
    throw UsageError("the model has no parameter to train");
  for (std::size_t g = 1; g < counts.size(); ++g) {
    if (counts[g] > 0) continue;
    throw UsageError("optimizer.groups[" + std::to_string(g - 1) +
                     "] fits no parameter that an earlier group has left");
  }
}

NamedOptimizer::NamedOptimizer(const OptimizerRecipe& recipe,
                               std::vector<parallel::NamedTensor> parameters,
                               const OptimizerFactory& plugin)
    : name_(recipe.name) {
  std::vector<std::vector<parallel::NamedTensor>> members(recipe.groups.size() + 1);
  for (auto& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    members[group_of(recipe, parameter)].push_back(parameter);
    parameters_.push_back(std::move(parameter));
  }
  ParameterGroups groups;
  for (std::size_t g = 0; g < members.size(); ++g) {
    // Where this is a part of a network, groups may be of other parts; but one has to be there.
    if (members[g].empty() && (g > 0 || !parameters_.empty())) continue;
    scales_.push_back(g > 0 ? recipe.groups[g - 1].lr_scale : 1.0);
    groups.push_back(
        {g > 0 ? values_of_group(recipe, recipe.groups[g - 1]) : recipe, std::move(members[g])});
    decays_.push_back(groups.back().values.weight_decay);
  }
  optimizer_ = make(groups, plugin);
}

NamedOptimizer::NamedOptimizer(std::string name, std::vector<parallel::NamedTensor> parameters,
                               std::vector<double> scales,
                               std::unique_ptr<GroupedOptimizer> optimizer)
    : name_(std::move(name)),
      parameters_(std::move(parameters)),
      scales_(std::move(scales)),
      optimizer_(std::move(optimizer)) {}

NamedOptimizer::~NamedOptimizer() = default;
NamedOptimizer::NamedOptimizer(NamedOptimizer&&) noexcept = default;
NamedOptimizer& NamedOptimizer::operator=(NamedOptimizer&&) noexcept = default;

void NamedOptimizer::set_learning_rate(double lr) {
  for (std::size_t g = 0; g < scales_.size(); ++g)
    optimizer_->set_learning_rate(g, lr * scales_[g]);
}

void NamedOptimizer::set_weight_decay(
    const std::function<double(double scale, double own)>& decay_of) {
  if (decays_.empty()) throw std::logic_error("the recipe says nothing of these groups' decay");
  for (std::size_t g = 0; g < scales_.size(); ++g)
    optimizer_->set_weight_decay(g, decay_of(scales_[g], decays_[g]));
}

void NamedOptimizer::set_divided(const comm::Communicator& ranks,
                                 const std::vector<std::string>& names) {
  if (!optimizer_->layerwise() || ranks.size() == 1) return;
  std::string own;
  for (const std::string& name : names) own += name + '\n';
  // Some may have nothing at all of a parameter.
  std::set<std::string> all;
  for (const std::string& text : ranks.gather_text(own)) {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      all.insert(text.substr(at, end - at));
      at = end + 1;
    }
  }
  if (all.empty()) return;
  optimizer_->set_divided({all.begin(), all.end()}, [ranks](std::vector<optim::Squares>& squares) {
    std::vector<double> sums;
    for (const optim::Squares& s : squares) sums.insert(sums.end(), {s.weights, s.direction});
    ranks.allreduce(comm::buffer_of(sums), comm::ReduceOp::sum);
    for (std::size_t i = 0; i < squares.size(); ++i) squares[i] = {sums[2 * i], sums[2 * i + 1]};
  });
}

void NamedOptimizer::zero_grad() { optimizer_->zero_grad(); }
void NamedOptimizer::step() { optimizer_->step(); }

void NamedOptimizer::save(State& state) const {
  const std::vector<std::string> names = optimizer_->slot_names();
  for (const auto& parameter : parameters_) {
    const std::vector<torch::Tensor*> slots = optimizer_->slots(parameter.tensor, false);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i]->defined()) state.optimizer[names[i] + "/" + parameter.name] = *slots[i];
    }
    // Another rank may have none of them, and those that were unused in some steps have fewer.
    const std::int64_t steps = optimizer_->steps(parameter.tensor);
    if (steps > 0) state.numbers["optimizer.step/" + parameter.name] = static_cast<double>(steps);
  }
}

void NamedOptimizer::load(const State& state) {
  const auto number = [&state](const std::string& key, double fallback) {
    const auto found = state.numbers.find(key);
    return found == state.numbers.end() ? fallback : found->second;
  };
  const double most = number("optimizer.step", 0);  // of earlier versions, for those without one
  const std::vector<std::string> names = optimizer_->slot_names();
  std::set<std::string> used;
  for (const auto& parameter : parameters_) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto found = state.optimizer.find(names[i] + "/" + parameter.name);
      if (found == state.optimizer.end()) continue;  // not updated yet
      if (found->second.sizes() != parameter.tensor.sizes()) {
        throw UsageError("the checkpoint's optimizer state " + found->first +
                         " has another shape than the parameter");
      }
      *optimizer_->slots(parameter.tensor, true)[i] =
          torch::empty_like(parameter.tensor, torch::MemoryFormat::Preserve)
              .copy_(found->second)
              .detach();
      used.insert(found->first);
    }
    const auto steps = static_cast<std::int64_t>(number("optimizer.step/" + parameter.name, most));
    if (steps > 0) optimizer_->set_steps(parameter.tensor, steps);
  }
  for (const auto& [name, tensor] : state.optimizer) {
    if (used.contains(name)) continue;
    throw UsageError("the checkpoint holds optimizer state that '" + name_ +
                     "' with this recipe has no use for, e.g. " + name +
                     "; resume with the optimizer it was written by");
  }
}

}  // namespace convoy::train
