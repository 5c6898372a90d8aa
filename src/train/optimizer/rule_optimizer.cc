// Optimizers of plugins.
#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "train/optimizer/grouped_optimizer.h"

namespace convoy::train {
namespace {

class RuleOptimizer final : public GroupedOptimizer {
 public:
  RuleOptimizer(const ParameterGroups& groups, const OptimizerFactory& make)
      : name_(groups.front().values.name) {
    for (const ParameterGroup& group : groups) {
      groups_.push_back({make_update_rule(group.values, make), group.values.lr, {}});
      if (groups_.back().rule->slots() != slot_names()) {
        throw UsageError("the optimizer '" + name_ +
                         "' keeps other slots in one group than in others");
      }
      for (const auto& parameter : group.parameters) {
        groups_.back().members.push_back(members_.size());
        of_[parameter.tensor.unsafeGetTensorImpl()] = members_.size();
        members_.push_back({parameter.name, parameter.tensor, {}, 0});
      }
    }
  }

  void set_learning_rate(std::size_t group, double lr) override { groups_[group].lr = lr; }
  void zero_grad() override {
    for (Member& member : members_) member.tensor.mutable_grad().reset();
  }
  void step() override {
    const torch::NoGradGuard no_grad;
    for (const Group& group : groups_) {
      for (const std::size_t index : group.members) update(group, members_[index]);
    }
  }

  std::vector<std::string> slot_names() const override { return groups_.front().rule->slots(); }
  std::vector<torch::Tensor*> slots(const torch::Tensor& parameter, bool make) override {
    Member& member = of(parameter);
    if (make) member.slots.resize(slot_names().size());
    std::vector<torch::Tensor*> slots;
    for (torch::Tensor& slot : member.slots) slots.push_back(&slot);
    return slots;
  }
  std::int64_t steps(const torch::Tensor& parameter) override { return of(parameter).steps; }
  void set_steps(const torch::Tensor& parameter, std::int64_t steps) override {
    of(parameter).steps = steps;
  }

 private:
  struct Member {
    std::string name;
    torch::Tensor tensor;
    std::vector<torch::Tensor> slots;
    std::int64_t steps;
  };
  struct Group {
    std::unique_ptr<UpdateRule> rule;
    double lr;
    std::vector<std::size_t> members;
  };

  Member& of(const torch::Tensor& parameter) {
    return members_[of_.at(parameter.unsafeGetTensorImpl())];
  }

  void update(const Group& group, Member& member) {
    const torch::Tensor& gradient = member.tensor.grad();
    if (!gradient.defined()) return;
    slots(member.tensor, true);
    for (torch::Tensor& slot : member.slots) {
      if (slot.defined()) continue;
      slot = torch::zeros_like(member.tensor, {}, torch::MemoryFormat::Preserve);
    }
    group.rule->update(
        {member.name, member.tensor, gradient, member.slots, ++member.steps, group.lr});
    for (std::size_t i = 0; i < member.slots.size(); ++i) {
      const torch::Tensor& slot = member.slots[i];
      if (slot.defined() && slot.sizes() == member.tensor.sizes() &&
          slot.scalar_type() == member.tensor.scalar_type() &&
          slot.device() == member.tensor.device())
        continue;
      throw UsageError("the optimizer '" + name_ + "' gave its slot '" + slot_names()[i] + "' of " +
                       member.name + " another shape, type or device than the parameter has");
    }
  }

  std::string name_;
  std::vector<Group> groups_;
  std::vector<Member> members_;
  std::map<const void*, std::size_t> of_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerRecipe& values,
                                             const OptimizerFactory& make) {
  const std::string which = "the optimizer '" + values.name + "' of a plugin ";
  auto rule = make({values.weight_decay, values.options});
  if (rule == nullptr) throw UsageError(which + "gave nothing");
  std::vector<std::string> names = rule->slots();
  std::sort(names.begin(), names.end());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || names[i].find('/') != std::string::npos)
      throw UsageError(which + "names a slot '" + names[i] + "'; it can't be empty or hold a /");
    if (i > 0 && names[i] == names[i - 1])
      throw UsageError(which + "has two slots '" + names[i] + "'");
  }
  return rule;
}

std::unique_ptr<GroupedOptimizer> make_rule_optimizer(const ParameterGroups& groups,
                                                      const OptimizerFactory& make) {
  return std::make_unique<RuleOptimizer>(groups, make);
}

}  // namespace convoy::train
