#include "convoy/parallel/gradient_reducer.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "parallel/direct_gradients.h"
#include "parallel/reduction_step.h"
#include "parallel/same_options.h"
#include "parallel/wait.h"

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

// Where the sources of a step meet. Outlives the reducer as long as autograd has something to tell.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;  // per source: its backward pass of this step
  std::uint64_t steps = 0;
  std::exception_ptr error;  // the first; nothing works after it

  // Under the lock.
  void fail(std::exception_ptr with) {
    if (!error) error = std::move(with);
    changed.notify_all();
  }
};

// Held by what autograd calls at the end of a backward pass: which it drops, uncalled, when an
// exception ends the pass.
class EndOfBackward {
 public:
  EndOfBackward(std::shared_ptr<Gate> gate, std::string failure)
      : gate_(std::move(gate)), failure_(std::move(failure)) {}
  ~EndOfBackward() {
    if (!awaited_) return;
    const std::lock_guard lock(gate_->mutex);
    gate_->fail(std::make_exception_ptr(OtherSourceEnded(failure_)));
  }
  EndOfBackward(const EndOfBackward&) = delete;
  EndOfBackward& operator=(const EndOfBackward&) = delete;

  void await() { awaited_ = true; }
  void reached() { awaited_ = false; }

 private:
  std::shared_ptr<Gate> gate_;
  std::string failure_;
  bool awaited_ = false;
};

comm::Communicator own_communicator(const comm::Communicator& all, const ReducerOptions& options) {
  check_same_options(all, options);
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
        synchronizing_(step_.sources(), true),
        backwards_(step_.sources()),
        rest_awaited_(step_.sources()),
        allow_unused_(options.allow_unused) {
    gate_->ended.resize(step_.sources());
    for (std::size_t source = 0; source < step_.sources(); ++source) {
      for (std::size_t i = 0; i < step_.parameters(); ++i) {
        // The accumulation node lives only as long as somebody holds it.
        auto node = torch::autograd::impl::grad_accumulator(step_.parameter(source, i));
        const auto key = node->add_post_hook(
            std::make_unique<AfterAccumulation>([this, source, i] { on_gradient(source, i); }));
        hooks_.emplace_back(std::move(node), key);
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

  // A conversion makes autograd forget the node that is hooked into: without this look, training
  // would go on with gradients of this rank alone.
  void check_parameters() const {
    for (std::size_t h = 0; h < hooks_.size(); ++h) {
      const std::size_t source = h / step_.parameters(), i = h % step_.parameters();
      const at::Tensor& tensor = step_.parameter(source, i);
      if (!tensor.requires_grad() ||
          torch::autograd::impl::try_get_grad_accumulator(tensor) == hooks_[h].node())
        continue;
      throw UsageError(
          prefix() + "parameter '" + step_.name(i) +
          "' was converted or moved to another device after its model was distributed; "
          "do that before");
    }
    for (const NamedTensor& frozen : step_.frozen()) {
      if (frozen.tensor.requires_grad()) {
        throw UsageError(prefix() + "parameter '" + frozen.name +
                         "' was frozen when its model was distributed and requires a gradient "
                         "now, which would not be reduced; distribute the model again after such a "
                         "change");
      }
    }
  }

  // Before a forward pass: no pass around one that has ended may have been without the rest.
  void check_last_backward() const {
    const bool recomputes = torch::autograd::get_current_node() != nullptr;
    for (std::size_t source = 0; source < rest_awaited_.size(); ++source) {
      if (!recomputes && rest_awaited_[source] && !gate_->error)
        throw UsageError(without_gradient(prefix(), step_.names_without_gradient(source)));
    }
  }

  void give_gradient(std::size_t i, std::size_t source) {
    const std::lock_guard lock(gate_->mutex);
    check_source(source);
    if (i >= step_.parameters()) {
      throw UsageError(prefix() + "there is no parameter " + std::to_string(i) +
                       " to give a gradient of; the reducer has " +
                       std::to_string(step_.parameters()));
    }
    step_.gradient_ready(source, i);
  }
  void finish_step() {
    const std::lock_guard lock(gate_->mutex);
    step_.finish();
  }

  void skip(std::size_t source) {
    {
      const std::lock_guard lock(gate_->mutex);
      check_source(source);
      if (gate_->error) std::rethrow_exception(gate_->error);
      try {
        for (std::size_t i = 0; i < step_.parameters(); ++i) step_.gradient_ready(source, i);
      } catch (...) {
        end_others(source);
        throw;
      }
    }
    on_end_of_backward(source);
  }
  void fail(const std::string& why) {
    const std::lock_guard lock(gate_->mutex);
    gate_->fail(std::make_exception_ptr(OtherSourceEnded(prefix() + why)));
  }

  void set_synchronizing(bool on) {
    const std::lock_guard lock(gate_->mutex);
    synchronizing_.assign(synchronizing_.size(), on);
  }
  void set_synchronizing(bool on, std::size_t source) {
    const std::lock_guard lock(gate_->mutex);
    check_source(source);
    synchronizing_[source] = on;
  }
  bool synchronizing() const {
    const std::lock_guard lock(gate_->mutex);
    return synchronizing_[0];
  }

  ReductionStep& step() { return step_; }

 private:
  at::Tensor take(std::size_t i) {
    const std::lock_guard lock(gate_->mutex);
    return step_.take_slot(i);
  }

  void on_gradient(std::size_t source, std::size_t i) {
    const std::lock_guard lock(gate_->mutex);
    if (!synchronizing_[source]) {
      step_.gradient_kept(source, i);
      return;
    }
    if (gate_->error) std::rethrow_exception(gate_->error);
    try {
      if (!backwards_[source]) {
        backwards_[source] = true;
        rest_awaited_[source] = false;
        check_parameters();
        await_end_of_backward(source);
      }
      step_.gradient_ready(source, i);
    } catch (...) {
      end_others(source);
      throw;
    }
  }

  // Called under the lock, where the error is being caught that this source has. Of several sources
  // the others end with what names it, but for a failure of the world, which is that of all.
  void end_others(std::size_t source) {
    const std::exception_ptr error = std::current_exception();
    std::string why;
    try {
      std::rethrow_exception(error);
    } catch (const Failure&) {
      return gate_->fail(error);
    } catch (const std::exception& e) {
      why = message_of(e);
    } catch (...) {
      why = "an exception that is no std::exception";
    }
    if (step_.sources() == 1) return gate_->fail(error);
    const std::string who = "the backward pass of source " + std::to_string(source);
    gate_->fail(std::make_exception_ptr(OtherSourceEnded(prefix() + who + " has ended: " + why)));
  }

  void await_end_of_backward(std::size_t source) {
    const auto end = std::make_shared<EndOfBackward>(
        gate_, prefix() + "the backward pass of source " + std::to_string(source) +
                   " was ended by an exception");
    torch::autograd::Engine::get_default_engine().queue_callback([this, source, end] {
      end->reached();
      on_end_of_backward(source);
    });
    end->await();
  }

  // The last source to get here ends the step; the others wait for it, or for what keeps it from
  // getting here.
  void on_end_of_backward(std::size_t source) {
    std::unique_lock lock(gate_->mutex);
    backwards_[source] = false;
    rest_awaited_[source] = !gate_->error && goes_on_in_another_pass(source);
    if (rest_awaited_[source]) return;
    gate_->ended[source] = true;
    if (gate_->error) std::rethrow_exception(gate_->error);
    if (std::find(gate_->ended.begin(), gate_->ended.end(), false) == gate_->ended.end()) {
      gate_->ended.assign(gate_->ended.size(), false);
      try {
        step_.finish();
      } catch (...) {
        gate_->fail(std::current_exception());
      }
      ++gate_->steps;
      gate_->changed.notify_all();
    } else {
      const std::uint64_t mine = gate_->steps;
      const auto over = [&] { return gate_->steps != mine || gate_->error; };
      const auto since = Clock::now();
      if (!wait_up_to(gate_->changed, lock, step_.communicator().timeout(), over))
        gate_->fail(std::make_exception_ptr(Failure(who_is_missing(source))));
      step_.note_wait_of_source(seconds_since(since));
    }
    if (gate_->error) std::rethrow_exception(gate_->error);
  }

  // Whether this pass was called from within another one, as where a function computes its layers
  // again in backward, which has gradients still to come. Called under the lock, when no node of
  // the pass is being evaluated any more.
  bool goes_on_in_another_pass(std::size_t source) {
    if (torch::autograd::get_current_node() == nullptr) return false;
    const std::string names = step_.names_without_gradient(source);
    if (names.empty()) return false;
    if (!allow_unused_) return true;
    // Nothing tells when the pass around it ends, if that uses none of them.
    gate_->fail(std::make_exception_ptr(UsageError(
        prefix() +
        "a backward pass within another one, as of layers that are computed again, has "
        "brought no gradient for " +
        names +
        "; with allow_unused these would count as unused. Leave allow_unused off, or let a layer "
        "that is not computed again come last")));
    return false;
  }

  void check_source(std::size_t source) const {
    if (source < step_.sources()) return;
    throw UsageError(prefix() + "there is no source " + std::to_string(source) +
                     "; the reducer has " + std::to_string(step_.sources()));
  }

  std::string prefix() const {
    return "rank " + std::to_string(step_.communicator().rank()) + ": ";
  }
  std::string who_is_missing(std::size_t source) const {
    std::string missing;
    for (std::size_t s = 0; s < gate_->ended.size(); ++s) {
      if (!gate_->ended[s]) missing += (missing.empty() ? "" : ", ") + std::to_string(s);
    }
    return prefix() + "the backward pass of source " + std::to_string(source) + " has waited " +
           format_seconds(step_.communicator().timeout().count()) + " for that of source " +
           missing;
  }

  class Hook {
   public:
    Hook(std::shared_ptr<torch::autograd::Node> node, std::uintptr_t key)
        : node_(std::move(node)), key_(key) {}
    Hook(Hook&&) noexcept = default;
    Hook& operator=(Hook&&) = delete;
    ~Hook() {
      if (node_) node_->del_post_hook(key_);
    }
    const std::shared_ptr<torch::autograd::Node>& node() const { return node_; }

   private:
    std::shared_ptr<torch::autograd::Node> node_;
    std::uintptr_t key_;
  };

  ReductionStep step_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();  // its lock is that of step_ as well
  std::vector<Hook> hooks_;
  std::vector<std::unique_ptr<DirectGradient>> direct_;
  std::vector<bool> synchronizing_;  // per source; by the gate's lock, as what follows
  std::vector<bool> backwards_;      // per source: in a backward pass that reduces
  std::vector<bool> rest_awaited_;   // per source: from the pass around one that has ended
  bool allow_unused_;
};

GradientReducer::GradientReducer(const comm::Communicator& communicator,
                                 std::vector<std::vector<NamedTensor>> sources,
                                 ReducerOptions options)
    : impl_(std::make_unique<Impl>(communicator, std::move(sources), std::move(options))) {}
GradientReducer::~GradientReducer() = default;

void GradientReducer::count_samples(double samples, int source) {
  if (!can_count(samples)) {
    std::ostringstream text;
    text << "rank " << communicator().rank() << ": the samples of a micro-batch count " << samples
         << "; that has to be 0, or from " << kLeastSamples << " to " << kMostSamples;
    throw UsageError(text.str());
  }
  impl_->step().count_samples(static_cast<std::size_t>(source), samples);
}
void GradientReducer::check_parameters() const {
  impl_->check_last_backward();
  impl_->check_parameters();
}
void GradientReducer::set_synchronizing(bool on) { impl_->set_synchronizing(on); }
void GradientReducer::set_synchronizing(bool on, int source) {
  impl_->set_synchronizing(on, static_cast<std::size_t>(source));
}
bool GradientReducer::synchronizing() const { return impl_->synchronizing(); }
void GradientReducer::skip(int source) { impl_->skip(static_cast<std::size_t>(source)); }
void GradientReducer::fail(const std::string& why) { impl_->fail(why); }
void GradientReducer::drain(const std::function<void()>& on_step) { impl_->step().drain(on_step); }
bool GradientReducer::join_with_zeros() { return impl_->step().join_with_zeros(); }
void GradientReducer::give_gradient(std::size_t parameter, int source) {
  impl_->give_gradient(parameter, static_cast<std::size_t>(source));
}
void GradientReducer::finish_step() { impl_->finish_step(); }
void GradientReducer::set_observer(std::function<void(const ReductionSpan&)> observer) {
  impl_->step().set_observer(std::move(observer));
}
void GradientReducer::set_meanwhile(std::function<bool()> work) {
  impl_->step().set_meanwhile(std::move(work));
}
const ReducerStatistics& GradientReducer::statistics() const { return impl_->step().statistics(); }
const comm::Communicator& GradientReducer::communicator() const {
  return impl_->step().communicator();
}
std::vector<std::vector<std::string>> GradientReducer::buckets() const {
  return impl_->step().bucket_names();
}

}  // namespace convoy::parallel
