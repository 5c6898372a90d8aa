// optim::SgdVelocity, which LibTorch doesn't have.
#include <map>
#include <utility>

#include "convoy/train/optimizer_rule.h"
#include "train/optimizer/fused_step.h"
#include "train/optimizer/grouped_optimizer.h"

namespace convoy::train {
namespace {

using Rule = optim::SgdVelocity;

// Where the rule on plain memory can't: on other devices, and in other types.
void update(const Rule& rule, torch::Tensor parameter, torch::Tensor& velocity) {
  if (!velocity.defined())
    velocity = torch::zeros_like(parameter, {}, torch::MemoryFormat::Preserve);
  const torch::Tensor d = parameter.grad() + parameter * rule.weight_decay;
  velocity.mul_(rule.momentum).sub_(d, rule.lr);
  parameter.add_(velocity);
}

class VelocityOptimizer final : public GroupedOptimizer {
 public:
  explicit VelocityOptimizer(const ParameterGroups& groups) {
    for (const ParameterGroup& group : groups) {
      Group& own = groups_.emplace_back();
      own.rule = std::get<Rule>(optimizer_rule(group.values));
      for (const auto& parameter : group.parameters) own.parameters.push_back(parameter.tensor);
    }
  }

  void set_learning_rate(std::size_t group, double lr) override { groups_[group].rule.lr = lr; }
  void set_weight_decay(std::size_t group, double decay) override {
    groups_[group].rule.weight_decay = decay;
  }
  void zero_grad() override {
    for (const Group& group : groups_) {
      for (const torch::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
    }
  }
  void step() override {
    const torch::NoGradGuard no_grad;
    FusedStep fused;
    for (const Group& group : groups_) {
      for (const torch::Tensor& parameter : group.parameters) {
        if (!parameter.grad().defined()) continue;
        torch::Tensor& velocity = velocities_[parameter.unsafeGetTensorImpl()];
        if (can_fuse(parameter)) {
          fused.add(group.rule, 1, parameter, {&velocity});
        } else {
          update(group.rule, parameter, velocity);
        }
      }
    }
    fused.run();
  }

  std::vector<std::string> slot_names() const override { return {"velocity"}; }
  std::vector<torch::Tensor*> slots(const torch::Tensor& parameter, bool make) override {
    const auto found = velocities_.find(parameter.unsafeGetTensorImpl());
    if (found != velocities_.end()) return {&found->second};
    if (!make) return {};
    return {&velocities_[parameter.unsafeGetTensorImpl()]};
  }
  // It counts none.
  std::int64_t steps(const torch::Tensor&) override { return 0; }
  void set_steps(const torch::Tensor&, std::int64_t) override {}

 private:
  struct Group {
    Rule rule;
    std::vector<torch::Tensor> parameters;
  };
  std::vector<Group> groups_;
  std::map<const void*, torch::Tensor> velocities_;
};

}  // namespace

std::unique_ptr<GroupedOptimizer> make_velocity_optimizer(const ParameterGroups& groups) {
  return std::make_unique<VelocityOptimizer>(groups);
}

}  // namespace convoy::train
