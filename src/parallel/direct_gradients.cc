#include "parallel/direct_gradients.h"

#include <ATen/ops/linear_native.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace convoy::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Who is asked about a weight: one of the two.
struct Asked {
  DirectGradient::Take take;
  DeferredGradient::Keep keep;

  explicit operator bool() const { return take || keep; }
};

// By the weight's implementation, which the owner of an entry keeps alive.
class Table {
 public:
  bool empty() const { return size_.load(std::memory_order_relaxed) == 0; }

  void add(const void* weight, const void* owner, Asked asked) {
    const std::unique_lock lock(mutex_);
    entries_.insert({weight, {owner, std::move(asked)}});
    size_ = entries_.size();
  }

  void remove(const void* weight, const void* owner) {
    const std::unique_lock lock(mutex_);
    const auto [begin, end] = entries_.equal_range(weight);
    entries_.erase(
        std::find_if(begin, end, [&](const auto& e) { return e.second.owner == owner; }));
    size_ = entries_.size();
  }

  // Empty if there is none, or more than one.
  Asked find(const void* weight) const {
    const std::shared_lock lock(mutex_);
    return entries_.count(weight) == 1 ? entries_.find(weight)->second.asked : Asked();
  }

 private:
  struct Entry {
    const void* owner;
    Asked asked;
  };
  mutable std::shared_mutex mutex_;
  std::unordered_multimap<const void*, Entry> entries_;
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
struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    // No more than backward will use: what is kept must not be changed until then.
    context->save_for_backward({weight.requires_grad() ? input : at::Tensor(),
                                input.requires_grad() ? weight : at::Tensor()});
    // The weight lives as long as this function, which leads to its gradient.
    context->saved_data["weight"] = reinterpret_cast<std::int64_t>(weight.unsafeGetTensorImpl());
    context->saved_data["columns"] = weight.size(1);
    context->saved_data["bias"] = bias && bias->defined();
    // The result must be no view in autograd's eyes, or nobody could change it in place.
    const at::AutoDispatchBelowADInplaceOrView below;
    return at::native::linear(input, weight, bias);
  }

  static variable_list backward(AutogradContext* context, variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor dy = as_rows(outputs[0]);
    variable_list gradients(3);
    if (context->needs_input_grad(0)) {
      auto shape = outputs[0].sizes().vec();
      shape.back() = context->saved_data["columns"].toInt();
      gradients[0] = dy.mm(weight).view(shape);
    }
    if (context->needs_input_grad(1))
      gradients[1] = weight_gradient(context->saved_data["weight"].toInt(), as_rows(input), dy);
    // An input that is not there has no number.
    const bool bias = context->saved_data["bias"].toBool();
    if (bias && context->needs_input_grad(2)) gradients[2] = dy.sum(0);
    return gradients;
  }

  // Undefined if somebody else sees to it.
  static at::Tensor weight_gradient(std::int64_t weight, const at::Tensor& input,
                                    const at::Tensor& dy) {
    Asked asked;
    if (goes_to_grad()) asked = table().find(reinterpret_cast<const void*>(weight));  // NOLINT
    if (asked.keep) {
      asked.keep(input.detach(), dy.detach());
      return {};
    }
    at::Tensor memory = asked.take ? asked.take() : at::Tensor();
    if (!memory.defined()) return dy.t().mm(input);
    at::mm_out(memory, dy.t(), input);
    return memory;
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
  return direct ? LinearFunction::apply(input, weight, bias)
                : at::native::linear(input, weight, bias);
}

}  // namespace

DirectGradient::DirectGradient(const at::Tensor& weight, Take take)
    : weight_(weight.unsafeGetTensorImpl()) {
  table().add(weight_, this, {.take = std::move(take), .keep = {}});
}

DirectGradient::~DirectGradient() { table().remove(weight_, this); }

DeferredGradient::DeferredGradient(const at::Tensor& weight, Keep keep)
    : weight_(weight.unsafeGetTensorImpl()) {
  table().add(weight_, this, {.take = {}, .keep = std::move(keep)});
}

DeferredGradient::~DeferredGradient() { table().remove(weight_, this); }

// As sync_batch_norm.cc: aten::linear is a composite, which leaves this key free. For weights that
// nobody registered the kernel does what the composite does.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) { library.impl("linear", linear); }

}  // namespace convoy::parallel
