// This trains any LibTorch module on several processes, each with samples of its own.
//
//   convoy::World world = convoy::World::join();
//   convoy::DistributedModel model(world, net);  // a std::shared_ptr<Net>, or a TORCH_MODULE
//   convoy::DistributedSampler sampler(size, world);
//
// and then the loop of one process, with model.forward(x) for net->forward(x), and
// model.finish_epoch() after each epoch (docs/distributed-model.md).
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/parallel/gradient_reducer.h"

namespace convoy::parallel {

// Says over whose samples the statistics of batch normalization are taken in training.
enum class BatchNormStatistics {
  local,        // each rank's own; running averages drift apart, see broadcast_buffers()
  synchronized  // all ranks': the same as one process with the global batch. Two small messages per
                // layer. Every rank must run the same number of steps, with more than one value per
                // channel on each: LibTorch's modules throw where there is one alone. Statistics
                // of 16-bit inputs are taken in float, as LibTorch does. A rank whose samples count
                // 0 takes part in the statistics, and gives no gradient, not through these either.
                // Backward of a graph that outlives the model is undefined; second derivatives
                // (create_graph) throw UsageError.
};

// This is what synchronized batch normalization has spent on communication so far, within the
// passes: the ranks wait for each other in every layer.
struct NormalizationSeconds {
  double forward = 0;
  double backward = 0;
};

struct DistributedOptions : ReducerOptions {
  BatchNormStatistics batch_norm = BatchNormStatistics::local;
};

class DistributedCore;

// Keeps batch normalization synchronized, and counts samples, while a forward pass runs.
class ForwardScope {
 public:
  // Takes what the samples of the pass count, and what those of all of this rank's passes before
  // the next update do; it takes nothing where nobody knows.
  ForwardScope(DistributedCore& core, bool training, std::optional<double> samples,
               std::optional<double> total);
  // Is for a pass of one of several replicas, in its thread: who runs them counts their samples
  // beforehand, all together. `total`: of that replica's passes before the next update.
  ForwardScope(DistributedCore& core, std::size_t replica, double total);
  ~ForwardScope();
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;

 private:
  void synchronize(DistributedCore& core, std::size_t replica, double total);

  void* previous_ = nullptr;
};

// This is what DistributedModel does that does not depend on the type of the module.
class DistributedCore {
 public:
  DistributedCore(const comm::Communicator& all, std::shared_ptr<torch::nn::Module> module,
                  DistributedOptions options);
  // Takes several replicas of a module that this process has, one for each of its devices, which
  // are the sources of its reducer (Kumar et al. 2017, section 4.3): as many on every rank. All of
  // them get the parameters and buffers of the first one of rank 0. Their passes run in a thread
  // each, in ForwardScopes, while others wait for them in synchronized batch normalizations and at
  // the end of backward. Throws UsageError where replicas differ.
  DistributedCore(const comm::Communicator& all,
                  std::vector<std::shared_ptr<torch::nn::Module>> replicas,
                  DistributedOptions options);
  ~DistributedCore();

  // Ends all that replicas wait for each other in: one of them has ended. From any thread.
  void fail(const std::string& why);

  GradientReducer& reducer();
  void broadcast_buffers(int root);
  void finish_epoch(const std::function<void()>& on_step);
  double clip_grad_norm(double max_norm, double norm_type);
  const NormalizationSeconds& normalization_seconds() const;

 private:
  friend class ForwardScope;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// This is a module whose gradients are averaged over all ranks of a world, or over a part of them.
//
// Construction is collective: it checks that all ranks built the same model (UsageError naming the
// rank and the parameter otherwise), gives all of them rank 0's parameters and buffers, and hooks
// into backward. From then on loss.backward() leaves the averaged gradients in .grad: call forward,
// backward and optimizer.step() as ever, the same number of times on every rank (or see
// finish_epoch). Make optimizers before or after; parameters stay the same tensors. Freeze or
// unfreeze parameters before, and convert the module or move it to another device: a forward pass
// in training throws UsageError when that was done later. Buffers are the program's own after
// construction, whatever their type, until broadcast_buffers().
//
// Threads: as LibTorch's modules; backward may communicate from the thread that calls it.
// Errors: as GradientReducer.
template <class M>
class DistributedModel {
 public:
  DistributedModel(const comm::World& world, std::shared_ptr<M> module,
                   DistributedOptions options = {})
      : DistributedModel(world.communicator(), std::move(module), options) {}
  // Works over a part of the ranks: over those that hold replicas of the same module.
  DistributedModel(const comm::Communicator& replicas, std::shared_ptr<M> module,
                   DistributedOptions options = {})
      : module_(std::move(module)),
        core_(std::make_unique<DistributedCore>(replicas, module_, options)) {}
  DistributedModel(const comm::World& world, const torch::nn::ModuleHolder<M>& holder,
                   DistributedOptions options = {})
      : DistributedModel(world, holder.ptr(), options) {}

  // Gives the module's forward. In training the size of the first tensor's first dimension is taken
  // as the number of samples of this rank, which weights its gradient (Averaging::samples).
  template <class... Arguments>
  decltype(auto) forward(Arguments&&... arguments) {
    const bool training = module_->is_training() && torch::GradMode::is_enabled();
    const auto samples = training ? samples_of(arguments...) : std::nullopt;
    const ForwardScope scope(*core_, training, samples, samples);
    return module_->forward(std::forward<Arguments>(arguments)...);
  }
  // Does the same for a call of any kind: `use` gets the module. `weight` is what the samples of
  // this rank count (as many, or so many tokens), see GradientReducer::count_samples.
  template <class Use>
  decltype(auto) run(double weight, Use&& use) {
    return run(weight, weight, std::forward<Use>(use));
  }
  // Does the same for one of several micro-batches whose losses are each multiplied by weight /
  // total, with `total` what all of this rank's count together. That is a rank's weight in the
  // average, and so in what synchronized batch normalization sums up over ranks in backward.
  template <class Use>
  decltype(auto) run(double weight, double total, Use&& use) {
    const bool training = module_->is_training() && torch::GradMode::is_enabled();
    const ForwardScope scope(*core_, training, weight, total);
    return std::forward<Use>(use)(*module_);
  }
  template <class... Arguments>
  decltype(auto) operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  const std::shared_ptr<M>& module() const { return module_; }
  M* operator->() const { return module_.get(); }

  // While the returned object lives, backward accumulates gradients without communication:
  //   { auto quiet = model.no_sync(); loss1.backward(); }  loss2.backward();   // reduces the sum
  // Divide each micro-batch's loss by their number. The weight of a rank is its samples per
  // micro-batch. With synchronized batch normalization a rank's micro-batches have to be of the
  // same size then; others take run() with their total. May be nested, the inner object going
  // first; none may outlive the model.
  [[nodiscard]] auto no_sync() {
    const bool before = core_->reducer().synchronizing();
    core_->reducer().set_synchronizing(false);
    const auto restore = [before](GradientReducer* r) { r->set_synchronizing(before); };
    return std::unique_ptr<GradientReducer, decltype(restore)>(&core_->reducer(), restore);
  }

  // For ranks whose shares of the data may give different numbers of batches: call it after the
  // loop over an epoch, on every rank. A rank that was done earlier goes along with the steps of
  // the others with weight 0, calling `on_step` (optimizer.step(), and what else follows a
  // backward) for each of them.
  void finish_epoch(const std::function<void()>& on_step) { core_->finish_epoch(on_step); }

  // Scales the gradients down so that their total norm is at most max_norm; returns the norm
  // before. The same on every rank, without communication.
  double clip_grad_norm(double max_norm, double norm_type = 2.0) {
    return core_->clip_grad_norm(max_norm, norm_type);
  }

  // Gives all ranks the buffers (running statistics) of one. Collective. For evaluation on all
  // ranks.
  void broadcast_buffers(int root = 0) { core_->broadcast_buffers(root); }

  const ReducerStatistics& statistics() const { return core_->reducer().statistics(); }
  const NormalizationSeconds& normalization_seconds() const {
    return core_->normalization_seconds();
  }
  GradientReducer& reducer() { return core_->reducer(); }

 private:
  static std::optional<double> samples_of() { return std::nullopt; }
  template <class First, class... Rest>
  static std::optional<double> samples_of(const First& first, const Rest&... rest) {
    if constexpr (std::is_convertible_v<const First&, const at::Tensor&>) {
      const at::Tensor& tensor = first;
      return tensor.dim() > 0 ? static_cast<double>(tensor.size(0)) : 1;
    } else {
      return samples_of(rest...);
    }
  }

  std::shared_ptr<M> module_;
  std::unique_ptr<DistributedCore> core_;
};

template <class M>
DistributedModel(const comm::World&, std::shared_ptr<M>) -> DistributedModel<M>;
template <class M>
DistributedModel(const comm::World&, std::shared_ptr<M>, DistributedOptions) -> DistributedModel<M>;
template <class M>
DistributedModel(const comm::Communicator&, std::shared_ptr<M>) -> DistributedModel<M>;
template <class M>
DistributedModel(const comm::Communicator&, std::shared_ptr<M>, DistributedOptions)
    -> DistributedModel<M>;
template <class Holder>
requires requires { typename Holder::ContainedType; }
DistributedModel(const comm::World&, const Holder&)
    ->DistributedModel<typename Holder::ContainedType>;
template <class Holder>
requires requires { typename Holder::ContainedType; }
DistributedModel(const comm::World&, const Holder&, DistributedOptions)
    ->DistributedModel<typename Holder::ContainedType>;

}  // namespace convoy::parallel
