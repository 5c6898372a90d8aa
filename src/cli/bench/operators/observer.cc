#include "cli/bench/operators/observer.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <string>
#include <string_view>
#include <utility>

#include "convoy/base/clock.h"

namespace convoy::cli::operators {
namespace {

// What LibTorch's callbacks, which are plain functions, find their observer by.
thread_local Observer::Impl* observer_of_thread = nullptr;

Operand operand_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  Operand operand{true, tensor.sizes().vec(), 0, nullptr};
  if (tensor.layout() != at::kStrided || !tensor.has_storage()) return operand;
  std::int64_t elements = 1;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 0 || tensor.stride(d) != 0) elements *= tensor.size(d);
  }
  operand.bytes = elements * static_cast<std::int64_t>(tensor.element_size());
  operand.storage = tensor.storage().unsafeGetStorageImpl();
  operand.offset = tensor.storage_offset();
  return operand;
}

void add_operands(const c10::IValue& value, std::vector<Operand>& operands) {
  if (value.isTensor()) {
    operands.push_back(operand_of(value.toTensor()));
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) operands.push_back(operand_of(tensor));
  }
}

}  // namespace

class Observer::Impl {
 public:
  Impl() {
    at::RecordFunctionCallback callback(
        [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          if (observer_of_thread == nullptr) return nullptr;
          return observer_of_thread->begin(function);
        },
        [](const at::RecordFunction& function, at::ObserverContext* context) {
          const Clock::time_point now = Clock::now();
          if (observer_of_thread != nullptr && context != nullptr)
            observer_of_thread->end(function, static_cast<Running&>(*context), now);
        });
    callback.needsInputs(true).needsOutputs(true).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    observer_of_thread = this;
    handle_ = at::addThreadLocalCallback(std::move(callback));
  }
  ~Impl() {
    at::removeCallback(handle_);
    observer_of_thread = nullptr;
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::vector<TimedCall> take() {
    settled_ = 0;
    return std::exchange(calls_, {});
  }

 private:
  // What is known of an operator, or of a node of a backward pass, while it runs.
  struct Running final : at::ObserverContext {
    bool node = false;          // of a backward pass
    bool outermost = false;     // an operator that no other one has called
    bool holds_nodes = false;   // such a one that has run a backward pass itself
    int depth_before = 0;       // of a node: operators around it
    Running* before = nullptr;  // of a node: the outermost operator around it
    Call call;
    Clock::time_point start;
  };

  std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto running = std::make_unique<Running>();
    const std::string_view name = function.name();
    // Autograd records each node's turn as a function, with the hooks and sums around the node.
    running->node =
        function.scope() == at::RecordScope::BACKWARD_FUNCTION || name.starts_with("autograd::");
    if (running->node) {
      begin_node(*running);
    } else if (depth_++ == 0) {
      running->outermost = true;
      running->call.name = name;
      if (const auto full_name = function.operator_name())
        running->call.overload = full_name->overload_name;
      for (const c10::IValue& input : function.inputs()) add_operands(input, running->call.inputs);
      outermost_ = running.get();
    }
    running->start = Clock::now();
    return running;
  }

  // What a node calls has been called by no operator, whatever there is around the whole pass.
  void begin_node(Running& running) {
    running.depth_before = std::exchange(depth_, 0);
    running.before = std::exchange(outermost_, nullptr);
    if (running.before != nullptr) running.before->holds_nodes = true;
    ++nodes_;
    // What came before a backward pass was no update, but the way to it.
    for (; settled_ < calls_.size(); ++settled_) {
      if (calls_[settled_].phase == Phase::update) calls_[settled_].phase = Phase::forward;
    }
  }

  void end(const at::RecordFunction& function, Running& running, Clock::time_point now) {
    if (running.node) {
      --nodes_;
      depth_ = running.depth_before;
      outermost_ = running.before;
      return;
    }
    --depth_;
    if (!running.outermost) return;
    outermost_ = nullptr;
    if (running.holds_nodes) return;
    for (const c10::IValue& output : function.outputs()) add_operands(output, running.call.outputs);
    calls_.push_back({nodes_ > 0 ? Phase::backward : Phase::update, std::move(running.call),
                      std::chrono::duration<double>(now - running.start).count()});
  }

  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  int depth_ = 0;                 // operators that run, within the innermost node
  int nodes_ = 0;                 // that run
  Running* outermost_ = nullptr;  // the first of these operators
  std::vector<TimedCall> calls_;
  std::size_t settled_ = 0;  // calls of which the phase is known
};

Observer::Observer() : impl_(std::make_unique<Impl>()) {}
Observer::~Observer() = default;
std::vector<TimedCall> Observer::take() { return impl_->take(); }

}  // namespace convoy::cli::operators
