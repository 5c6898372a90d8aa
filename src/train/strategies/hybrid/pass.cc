#include "train/strategies/hybrid/pass.h"

#include <algorithm>
#include <utility>

namespace convoy::train {

namespace {

constexpr const char* kForward = "forward of partitioned layers";
constexpr const char* kBackward = "backward of partitioned layers";

}  // namespace

using torch::Tensor;

Tensor HeadParts::run(std::size_t layer, const Tensor& input) const {
  const Autocast autocast = compute.autocast();
  return network.head()[layer].part->forward({input}).front();
}

Computing::Computing(HeadParts& parts, const char* phase, double& seconds)
    : parts_(parts),
      phase_(phase),
      seconds_(seconds),
      start_(Clock::now()),
      waited_(parts.exchange.waited_seconds()) {}

Computing::~Computing() {
  const auto now = Clock::now();
  if (parts_.timeline != nullptr) parts_.timeline->add(Timeline::kTraining, phase_, start_, now);
  const double waited = parts_.exchange.waited_seconds() - waited_;
  seconds_ += std::max(0.0, std::chrono::duration<double>(now - start_).count() - waited);
}

Pass::Pass(HeadParts& parts, const HeadInput& input, Plan plan)
    : parts_(parts), input_(input), plan_(std::move(plan)) {}

// Forward through each layer, the losses, and backward through each.
bool Pass::advance() {
  const std::size_t layers = parts_.network.head().size();
  const std::size_t step = steps_++;
  if (step < layers) {
    forward(step);
    return true;
  }
  if (step == layers) {
    turn();
  } else {
    backward(2 * layers - step);
  }
  parts_.exchange.group().advance();
  return plan_.gradient_of_scores && steps_ <= 2 * layers;
}

void Pass::forward(std::size_t layer) {
  const Computing computing(parts_, kForward, parts_.seconds.forward);
  Tensor input =
      layer == 0 ? plan_.activations() : parts_.between.finish_all_units(layer - 1, transfer_);
  const bool training = plan_.gradient_of_scores != nullptr;
  input = input.to(parts_.compute.device());
  if (training) input.requires_grad_(layer > 0 || plan_.gradients);
  std::optional<model::RandomScope> scope;
  if (training) scope.emplace(plan_.seed, plan_.step, plan_.samples);
  const Tensor output = parts_.run(layer, input);
  if (training) {
    inputs_.push_back(std::move(input));
    outputs_.push_back(output);
  }
  const bool last = layer + 1 == parts_.network.head().size();
  transfer_ = last ? parts_.between.start_scores(plan_.slot, pieces(), input_.views, output)
                   : parts_.between.start_all_units(plan_.slot, layer, output);
  parts_.exchange.group().advance();
}

void Pass::turn() {
  const bool training = plan_.gradient_of_scores != nullptr;
  const Computing computing(parts_, training ? kBackward : kForward,
                            training ? parts_.seconds.backward : parts_.seconds.forward);
  scores_ = parts_.between.finish_scores(transfer_).to(parts_.compute.device());
  if (!training) return;
  const bool own = scores_.size(0) > 0;
  const Tensor gradient = own ? plan_.gradient_of_scores(scores_) : torch::zeros_like(scores_);
  transfer_ = parts_.between.start_score_gradients(plan_.slot, pieces(), input_.views, gradient);
}

void Pass::backward(std::size_t layer) {
  const Computing computing(parts_, kBackward, parts_.seconds.backward);
  const bool last = layer + 1 == parts_.network.head().size();
  const Tensor gradient = last ? parts_.between.finish_score_gradients(transfer_)
                               : parts_.between.finish_own_units(layer, transfer_);
  Tensor output = std::exchange(outputs_[layer], Tensor());
  const Tensor input = std::exchange(inputs_[layer], Tensor());
  // Nothing before a first layer that is frozen may be trained.
  if (output.requires_grad()) output.backward(gradient.to(output.device(), output.scalar_type()));
  if (layer > 0) {
    transfer_ = parts_.between.start_own_units(plan_.slot, layer - 1, input.grad());
  } else if (plan_.gradients) {
    transfer_ = parts_.boundary.start_gradients(input_, plan_.round, input.grad());
  }
}

}  // namespace convoy::train
