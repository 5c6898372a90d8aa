#include "convoy/train/fused_optimizers.h"

#include "train/optimizer/fused_step.h"

namespace convoy::train {
namespace {

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

torch::Tensor evaluate(const torch::optim::Optimizer::LossClosure& closure) {
  if (closure == nullptr) return {};
  const at::AutoGradMode enable_grad(true);
  return closure();
}

bool can_fuse_all(const Groups& groups) {
  for (const auto& group : groups) {
    for (const auto& parameter : group.params()) {
      if (parameter.grad().defined() && !can_fuse(parameter)) return false;
    }
  }
  return true;
}

// The optimizer's state of one parameter, made when it is not there yet.
template <typename State, typename States>
State& state_of(States& states, const torch::Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (state == nullptr) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// update(options, parameter) for each parameter with a gradient.
template <typename Options, typename Update>
void for_each_gradient(Groups& groups, const Update& update) {
  for (auto& group : groups) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const auto& parameter : group.params()) {
      if (parameter.grad().defined()) update(options, parameter);
    }
  }
}

// Adam and AdamW differ in their types and in the rule.
template <typename Rule, typename Options, typename State, typename States>
void add_adam(FusedStep& fused, const Options& options, const torch::Tensor& parameter,
              States& states) {
  const Rule rule{.lr = options.lr(),
                  .beta1 = std::get<0>(options.betas()),
                  .beta2 = std::get<1>(options.betas()),
                  .eps = options.eps(),
                  .weight_decay = options.weight_decay(),
                  .amsgrad = options.amsgrad()};
  State& state = state_of<State>(states, parameter);
  state.step(state.step() + 1);
  std::vector<torch::Tensor*> slots{&state.exp_avg(), &state.exp_avg_sq()};
  if (rule.amsgrad) slots.push_back(&state.max_exp_avg_sq());
  fused.add(rule, state.step(), parameter, slots);
}

}  // namespace

torch::Tensor FusedSgd::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor loss = evaluate(closure);
  if (!can_fuse_all(param_groups_)) {
    torch::optim::SGD::step();
    return loss;
  }
  FusedStep fused;
  for_each_gradient<torch::optim::SGDOptions>(
      param_groups_, [&](const auto& options, const torch::Tensor& parameter) {
        const optim::Sgd rule{.lr = options.lr(),
                              .momentum = options.momentum(),
                              .dampening = options.dampening(),
                              .weight_decay = options.weight_decay(),
                              .nesterov = options.nesterov()};
        if (rule.momentum == 0) return fused.add(rule, 1, parameter, {});
        auto& state = state_of<torch::optim::SGDParamState>(state_, parameter);
        // LibTorch's SGD counts no steps; what tells the first is that there is no buffer yet.
        const std::int64_t step = state.momentum_buffer().defined() ? 2 : 1;
        fused.add(rule, step, parameter, {&state.momentum_buffer()});
      });
  fused.run();
  return loss;
}

torch::Tensor FusedAdam::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor loss = evaluate(closure);
  if (!can_fuse_all(param_groups_)) {
    torch::optim::Adam::step();
    return loss;
  }
  FusedStep fused;
  for_each_gradient<torch::optim::AdamOptions>(
      param_groups_, [&](const torch::optim::AdamOptions& options, const torch::Tensor& parameter) {
        add_adam<optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>(
            fused, options, parameter, state_);
      });
  fused.run();
  return loss;
}

torch::Tensor FusedAdamW::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor loss = evaluate(closure);
  if (!can_fuse_all(param_groups_)) {
    torch::optim::AdamW::step();
    return loss;
  }
  FusedStep fused;
  for_each_gradient<torch::optim::AdamWOptions>(
      param_groups_,
      [&](const torch::optim::AdamWOptions& options, const torch::Tensor& parameter) {
        add_adam<optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>(
            fused, options, parameter, state_);
      });
  fused.run();
  return loss;
}

torch::Tensor FusedAdagrad::step(LossClosure closure) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor loss = evaluate(closure);
  if (!can_fuse_all(param_groups_)) {
    torch::optim::Adagrad::step();
    return loss;
  }
  FusedStep fused;
  for_each_gradient<torch::optim::AdagradOptions>(
      param_groups_, [&](const auto& options, const torch::Tensor& parameter) {
        const optim::Adagrad rule{.lr = options.lr(),
                                  .lr_decay = options.lr_decay(),
                                  .weight_decay = options.weight_decay(),
                                  .initial_accumulator_value = options.initial_accumulator_value(),
                                  .eps = options.eps()};
        auto& state = state_of<torch::optim::AdagradParamState>(state_, parameter);
        state.step(state.step() + 1);
        fused.add(rule, state.step(), parameter, {&state.sum()});
      });
  fused.run();
  return loss;
}

}  // namespace convoy::train
