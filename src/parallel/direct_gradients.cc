#include "parallel/direct_gradients.h"

#include <ATen/ops/linear_native.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <atomic>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace convoy::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// By the weight's implementation, which the owner of an entry keeps alive.
class Table {
 public:
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  bool add(const void* weight, DirectGradient::Take take) {
    const std::unique_lock lock(mutex_);
    const bool added = takes_.try_emplace(weight, std::move(take)).second;
    size_ = takes_.size();
    return added;
  }

  void remove(const void* weight) {
    const std::unique_lock lock(mutex_);
    takes_.erase(weight);
    size_ = takes_.size();
  }

  // Empty if there is none.
  DirectGradient::Take find(const void* weight) const {
    const std::shared_lock lock(mutex_);
    const auto found = takes_.find(weight);
    return found == takes_.end() ? DirectGradient::Take() : found->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, DirectGradient::Take> takes_;
  std::atomic<std::size_t> size_ = 0;
};

Table& table() {
  static Table instance;
  return instance;
}

// True in loss.backward(); false where only some gradients were asked for, which then belong to
// who asked.
bool goes_to_grad() {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  return !torch::GradMode::is_enabled() && wanted != nullptr && wanted->empty();
}

// [.., n] -> [rows, n]
at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// y = x wᵀ + b; dx = dy w, dw = dyᵀ x, db = the sum of dy's rows.
struct Function : torch::autograd::Function<Function> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["bias"] = bias && bias->defined();
    return at::native::linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = as_rows(outputs[0]);
    variable_list gradients(3);
    if (context->needs_input_grad(0)) gradients[0] = dy.mm(weight).view(input.sizes());
    if (context->needs_input_grad(1)) {
      gradients[1] = gradient_memory(weight);
      if (gradients[1].defined()) {
        at::mm_out(gradients[1], dy.t(), as_rows(input));
      } else {
        gradients[1] = dy.t().mm(as_rows(input));
      }
    }
    // An input that is not there has no number.
    const bool bias = context->saved_data["bias"].toBool();
    if (bias && context->needs_input_grad(2)) gradients[2] = dy.sum(0);
    return gradients;
  }

  static at::Tensor gradient_memory(const at::Tensor& weight) {
    if (!goes_to_grad()) return {};
    const auto take = table().find(weight.unsafeGetTensorImpl());
    return take ? take() : at::Tensor();
  }
};

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const bool direct = !table().empty() && torch::GradMode::is_enabled() &&
                      table().find(weight.unsafeGetTensorImpl()) && input.dim() > 0 &&
                      input.layout() == at::kStrided &&
                      input.scalar_type() == weight.scalar_type() && !has_tangent(input) &&
                      !has_tangent(weight) && !(bias && bias->defined() && has_tangent(*bias));
  return direct ? Function::apply(input, weight, bias) : at::native::linear(input, weight, bias);
}

}  // namespace

DirectGradient::DirectGradient(const at::Tensor& weight, Take take) {
  const void* key = weight.unsafeGetTensorImpl();
  if (table().add(key, std::move(take))) weight_ = key;
}

DirectGradient::~DirectGradient() {
  if (weight_ != nullptr) table().remove(weight_);
}

// As sync_batch_norm.cc: aten::linear is a composite, which leaves this key free. For weights that
// nobody registered the kernel does what the composite does.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { library.impl("linear", linear); }

}  // namespace convoy::parallel
