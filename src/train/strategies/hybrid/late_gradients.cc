#include "train/strategies/hybrid/late_gradients.h"

#include <algorithm>
#include <utility>

namespace convoy::train {
namespace {

// Elements of a gradient that are computed at a time.
constexpr std::int64_t kSome = std::int64_t{1} << 20;

void join(std::vector<torch::Tensor>& parts) {
  if (parts.size() > 1) parts = {torch::cat(parts)};
}

}  // namespace

LateGradients::LateGradients(const std::vector<PartitionedLayer>& layers) {
  for (const PartitionedLayer& layer : layers) {
    for (const torch::Tensor& parameter : layer.part->parameters())
      if (parameter.dim() == 2 && parameter.requires_grad())
        weights_.push_back({parameter, nullptr, {}, {}, {}, 0});
  }
  std::reverse(weights_.begin(), weights_.end());
}

void LateGradients::gather(bool on) {
  for (Weight& w : weights_) {
    w.inputs.clear();
    w.gradients.clear();
    w.rows = 0;
    if (on == (w.deferred != nullptr)) continue;
    w.deferred.reset();
    if (!on) continue;
    w.deferred = std::make_unique<parallel::DeferredGradient>(
        w.weight, [&w](const torch::Tensor& input, const torch::Tensor& gradient) {
          w.inputs.push_back(input);
          w.gradients.push_back(gradient);
        });
  }
}

bool LateGradients::compute_some() {
  const torch::NoGradGuard no_grad;
  const auto next = std::find_if(weights_.begin(), weights_.end(),
                                 [](const Weight& w) { return !w.inputs.empty(); });
  if (next == weights_.end()) return false;
  Weight& w = *next;
  if (w.rows == 0) begin(w);
  const std::int64_t rows =
      std::min(w.weight.size(0) - w.rows, std::max<std::int64_t>(1, kSome / w.weight.size(1)));
  torch::Tensor part = w.sum.narrow(0, w.rows, rows);
  torch::mm_out(part, w.gradients.front().narrow(1, w.rows, rows).t(), w.inputs.front());
  w.rows += rows;
  if (w.rows == w.weight.size(0)) end(w);
  return true;
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
  w.inputs.clear();
  w.gradients.clear();
  w.rows = 0;
}

}  // namespace convoy::train
