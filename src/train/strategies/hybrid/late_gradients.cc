#include "train/strategies/hybrid/late_gradients.h"

#include <algorithm>
#include <utility>

namespace convoy::train {
namespace {

// Elements of a gradient that are computed at a time, at most, and multiplications.
constexpr std::int64_t kSome = std::int64_t{1} << 20;
constexpr std::int64_t kSomeWork = std::int64_t{1} << 27;

void join(std::vector<torch::Tensor>& parts) {
  if (parts.size() > 1) parts = {torch::cat(parts)};
}

}  // namespace

LateGradients::LateGradients(const std::vector<PartitionedLayer>& layers) {
  for (const PartitionedLayer& layer : layers) {
    for (const torch::Tensor& parameter : layer.part->parameters())
      if (parameter.dim() == 2 && parameter.requires_grad())
        weights_.push_back({parameter, nullptr, {}, {}, 0, {}, 0});
  }
  std::reverse(weights_.begin(), weights_.end());
}

void LateGradients::gather(bool on) {
  for (Weight& w : weights_) {
    forget(w);
    if (on == (w.deferred != nullptr)) continue;
    w.deferred.reset();
    if (!on) continue;
    w.deferred = std::make_unique<parallel::DeferredGradient>(
        w.weight, [&w](const torch::Tensor& input, const torch::Tensor& gradient) {
          w.inputs.push_back(input);
          w.gradients.push_back(gradient);
          w.kept += input.numel() + gradient.numel();
          // Of so many samples there is enough for a product already.
          if (w.kept <= w.weight.numel()) return;
          while (compute_some_of(w)) {
          }
        });
  }
}

bool LateGradients::left() const {
  return std::any_of(weights_.begin(), weights_.end(),
                     [](const Weight& w) { return !w.inputs.empty(); });
}

bool LateGradients::left_of(const torch::Tensor& weight) const {
  return std::any_of(weights_.begin(), weights_.end(), [&](const Weight& w) {
    return w.weight.is_same(weight) && !w.inputs.empty();
  });
}

void LateGradients::stay_in_place() {
  for (Weight& w : weights_) {
    const torch::Tensor& gradient = w.weight.grad();
    if (gradient.defined() && gradient.is_contiguous()) w.sum = gradient;
  }
}

bool LateGradients::compute_some() {
  const auto next = std::find_if(weights_.begin(), weights_.end(),
                                 [](const Weight& w) { return !w.inputs.empty(); });
  if (next == weights_.end()) return false;
  compute_some_of(*next);
  return true;
}

// False if that was the end.
bool LateGradients::compute_some_of(Weight& w) {
  const torch::NoGradGuard no_grad;
  if (w.rows == 0) begin(w);
  const std::int64_t some = std::min(kSome, kSomeWork / w.inputs.front().size(0));
  const std::int64_t rows =
      std::min(w.weight.size(0) - w.rows, std::max<std::int64_t>(1, some / w.weight.size(1)));
  torch::Tensor part = w.sum.narrow(0, w.rows, rows);
  torch::mm_out(part, w.gradients.front().narrow(1, w.rows, rows).t(), w.inputs.front());
  w.rows += rows;
  if (w.rows < w.weight.size(0)) return true;
  end(w);
  return false;
}

void LateGradients::begin(Weight& w) {
  join(w.inputs);
  join(w.gradients);
  const torch::Tensor& before = w.weight.grad();
  if (!w.sum.defined() || (before.defined() && before.is_alias_of(w.sum)))
    w.sum = torch::empty_like(w.weight);
}

void LateGradients::end(Weight& w) {
  torch::Tensor& gradient = w.weight.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(w.sum);
  } else {
    gradient = w.sum;
  }
  forget(w);
}

void LateGradients::forget(Weight& w) {
  w.inputs.clear();
  w.gradients.clear();
  w.kept = w.rows = 0;
}

}  // namespace convoy::train
