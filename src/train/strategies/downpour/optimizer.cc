#include "train/strategies/downpour/optimizer.h"

#include <utility>
#include <variant>

#include "convoy/train/optimizer_rule.h"
#include "train/optimizer/grouped_optimizer.h"

namespace convoy::train {
namespace {

// LibTorch's Adam and Adagrad count, SGD does not; checkpoints have what they count.
bool counts(const optim::Rule& rule) {
  return !std::holds_alternative<optim::Sgd>(rule) &&
         !std::holds_alternative<optim::SgdVelocity>(rule);
}

class TellingOptimizer final : public GroupedOptimizer {
 public:
  TellingOptimizer(std::shared_ptr<RuleStates> states, UpdateCalls calls)
      : states_(std::move(states)), calls_(std::move(calls)) {}

  void set_learning_rate(std::size_t, double lr) override {
    if (calls_.set_learning_rate) calls_.set_learning_rate(lr);
  }
  void zero_grad() override {
    for (const auto& parameter : states_->parameters) parameter.tensor.mutable_grad().reset();
  }
  void step() override {
    if (calls_.step) calls_.step();
  }
  std::vector<std::string> slot_names() const override { return states_->names; }
  std::vector<torch::Tensor*> slots(const torch::Tensor& parameter, bool make) override {
    auto& slots = states_->slots[parameter.unsafeGetTensorImpl()];
    if (make) slots.resize(states_->names.size());
    std::vector<torch::Tensor*> pointers;
    for (torch::Tensor& slot : slots) pointers.push_back(&slot);
    return pointers;
  }
  std::int64_t steps(const torch::Tensor& parameter) override {
    if (!states_->counts) return 0;
    const auto found = states_->steps.find(parameter.unsafeGetTensorImpl());
    return found == states_->steps.end() ? 0 : found->second;
  }
  void set_steps(const torch::Tensor& parameter, std::int64_t steps) override {
    states_->steps[parameter.unsafeGetTensorImpl()] = steps;
  }

 private:
  std::shared_ptr<RuleStates> states_;
  UpdateCalls calls_;
};

}  // namespace

NamedOptimizer make_telling_optimizer(const OptimizerRecipe& recipe,
                                      std::vector<parallel::NamedTensor> parameters,
                                      std::shared_ptr<RuleStates> states, UpdateCalls calls) {
  std::erase_if(parameters, [](const auto& p) { return !p.tensor.requires_grad(); });
  const optim::Rule rule = optimizer_rule(recipe);
  states->names.clear();
  for (const optim::Slot& slot : optim::slots(rule)) states->names.emplace_back(slot.name);
  states->counts = counts(rule);
  states->parameters = parameters;
  auto optimizer = std::make_unique<TellingOptimizer>(std::move(states), std::move(calls));
  return {recipe.name, std::move(parameters), {1.0}, std::move(optimizer)};
}

}  // namespace convoy::train
