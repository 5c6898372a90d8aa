#include "convoy/parallel/gradient_reducer.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "convoy/base/error.h"
#include "parallel/direct_gradients.h"
#include "parallel/reduction_step.h"

namespace convoy::parallel {
namespace {

// Below, a copy costs less than the call that avoids it.
constexpr std::size_t kSmallestDirectGradient = std::size_t{1} << 20;

// Runs after a parameter's gradient is complete in .grad.
class AfterAccumulation : public torch::autograd::FunctionPostHook {
 public:
  explicit AfterAccumulation(std::function<void()> call) : call_(std::move(call)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

comm::Communicator own_communicator(const comm::Communicator& all, const ReducerOptions& options) {
  const comm::Communicator own =
      options.allreduce.empty() ? all.duplicate() : all.with_allreduce(options.allreduce);
  return options.reproducible ? own.with_reproducible(true) : own;
}

}  // namespace

// Ties autograd to ReductionStep: which thread calls what, and when a backward pass begins and
// ends.
class GradientReducer::Impl {
 public:
  Impl(const comm::Communicator& communicator, std::vector<std::vector<NamedTensor>> sources,
       ReducerOptions options)
      : step_(own_communicator(communicator, options), std::move(sources), options),
        backwards_(step_.sources()) {
    for (std::size_t source = 0; source < step_.sources(); ++source) {
      for (std::size_t i = 0; i < step_.parameters(); ++i) {
        // The accumulation node lives only as long as somebody holds it.
        auto node = torch::autograd::impl::grad_accumulator(step_.parameter(source, i));
        const auto key = node->add_post_hook(
            std::make_unique<AfterAccumulation>([this, source, i] { on_gradient(source, i); }));
        hooks_.push_back({std::move(node), key});
      }
    }
    if (!options.compute_in_buckets || step_.sources() > 1) return;
    for (std::size_t i = 0; i < step_.parameters(); ++i) {
      const at::Tensor& weight = step_.parameter(0, i);
      if (weight.dim() == 2 && weight.is_cpu() && weight.is_contiguous() &&
          weight.nbytes() >= kSmallestDirectGradient) {
        direct_.push_back(std::make_unique<DirectGradient>(weight, [this, i] { return take(i); }));
      }
    }
  }

  ~Impl() {
    for (auto& [node, key] : hooks_) node->del_post_hook(key);
  }

  ReductionStep& step() { return step_; }
  bool synchronizing = true;

 private:
  at::Tensor take(std::size_t i) {
    const std::lock_guard lock(mutex_);
    return step_.take_slot(i);
  }

  void on_gradient(std::size_t source, std::size_t i) {
    if (!synchronizing) return;
    const std::lock_guard lock(mutex_);
    if (!backwards_[source]) {
      backwards_[source] = true;
      torch::autograd::Engine::get_default_engine().queue_callback(
          [this, source] { on_end_of_backward(source); });
    }
    step_.gradient_ready(source, i);
  }

  // The last source to get here ends the step; the others wait for it.
  void on_end_of_backward(std::size_t source) {
    std::unique_lock lock(mutex_);
    backwards_[source] = false;
    if (++ended_ == step_.sources()) {
      ended_ = 0;
      try {
        step_.finish();
      } catch (...) {
        error_ = std::current_exception();
      }
      ++generation_;
      step_done_.notify_all();
    } else {
      const std::uint64_t mine = generation_;
      step_done_.wait(lock, [&] { return generation_ != mine; });
    }
    if (error_) std::rethrow_exception(error_);
  }

  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;
    std::uintptr_t key;
  };

  std::mutex mutex_;
  std::condition_variable step_done_;
  ReductionStep step_;
  std::vector<Hook> hooks_;
  std::vector<std::unique_ptr<DirectGradient>> direct_;
  std::vector<bool> backwards_;  // per source: in a backward pass that reduces
  std::size_t ended_ = 0;
  std::uint64_t generation_ = 0;
  std::exception_ptr error_;
};

GradientReducer::GradientReducer(const comm::Communicator& communicator,
                                 std::vector<std::vector<NamedTensor>> sources,
                                 ReducerOptions options)
    : impl_(std::make_unique<Impl>(communicator, std::move(sources), std::move(options))) {}
GradientReducer::~GradientReducer() = default;

void GradientReducer::count_samples(std::int64_t samples, int source) {
  impl_->step().count_samples(static_cast<std::size_t>(source), samples);
}
void GradientReducer::set_synchronizing(bool on) { impl_->synchronizing = on; }
bool GradientReducer::synchronizing() const { return impl_->synchronizing; }
void GradientReducer::drain(const std::function<void()>& on_step) { impl_->step().drain(on_step); }
bool GradientReducer::join_with_zeros() { return impl_->step().join_with_zeros(); }
void GradientReducer::set_observer(std::function<void(const ReductionSpan&)> observer) {
  impl_->step().set_observer(std::move(observer));
}
const ReducerStatistics& GradientReducer::statistics() const { return impl_->step().statistics(); }
const comm::Communicator& GradientReducer::communicator() const {
  return impl_->step().communicator();
}
std::vector<std::vector<std::string>> GradientReducer::buckets() const {
  return impl_->step().bucket_names();
}

}  // namespace convoy::parallel
