// Averages gradients over ranks while backward runs (Kumar et al. 2017, Algorithm 1).
//
// DistributedModel is the convenient form. Use the reducer itself where there is no module, or
// where one process computes gradients on several devices (section 4.3): each device is a source.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/comm/communicator.h"

namespace convoy::parallel {

// This is what the reduced gradient is, for ranks r with local gradients g_r of local mean losses.
enum class Averaging {
  samples,  // sum(n_r g_r) / sum(n_r), n_r what the samples of rank r count: the gradient of the
            // mean loss of the global batch, whatever each rank's share of it
  ranks,    // sum(g_r) / ranks
  sum       // sum(g_r): for losses that are sums. What is in .grad from an earlier step is summed
            // again, once per rank: zero it before each step, or accumulate with no_sync()
};

// All but gradient_as_bucket_view and compute_in_buckets must be the same on every rank.
struct ReducerOptions {
  // Gradients are reduced in buckets, in the order in which backward produces them. A bucket ends
  // with the gradient that makes it so large, or larger, in bytes. The first one is small, so that
  // communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{8} << 20;
  Averaging averaging = Averaging::samples;
  // Says whether a parameter may get no gradient in a backward pass on some or all ranks. If not,
  // that is an error which names the parameters. If so, one more small message per step finds out
  // which parameters nobody used since the last step: their .grad is left alone, while one that
  // some rank used is averaged over all.
  bool allow_unused = false;
  // Let .grad refer to the bucket instead of to a copy. Then a .grad kept from an earlier step
  // changes when the next backward runs; clone what you keep.
  bool gradient_as_bucket_view = true;
  // Let the backward pass of large fully connected layers (calls of torch::linear, as in
  // model::Linear but not torch::nn::Linear; from 1 MiB of weights on the CPU) write the weights'
  // gradients into the bucket, so that they needn't be copied there. Needs gradient_as_bucket_view;
  // a gradient that other terms of the loss add to is copied. What a hook on such a weight keeps of
  // its argument changes in the same backward: clone it.
  bool compute_in_buckets = true;
  // This is the order in which backward produces gradients, as names: what buckets() of an earlier
  // run gave. Empty: the order is measured in the first step. With it and `nominal_samples`, a
  // training that is resumed adds up gradients in the same order, to the same bits.
  std::vector<std::string> order;
  // Counts the samples of a source (of a rank, where it has one) in a usual micro-batch; 0: those
  // of the first step. What it is doesn't matter to the result but for rounding.
  double nominal_samples = 0;
  // Rules that choose the algorithm, as in Communicator::with_allreduce(). Empty: the world's.
  std::string allreduce;
  // Sums over ranks depend on what is added alone, to the bit, and not on the algorithm, nor on
  // which rank has which share of the batch, nor on buckets (WorldOptions::reproducible). Each
  // source of a rank is a contribution then, and takes memory for its gradients: the bits are those
  // of as many ranks with one source each. False: as the world.
  bool reproducible = false;
  // Reduce float32 gradients in another floating-point type (bf16 halves the bytes). They are
  // converted on the way in and out.
  std::optional<at::ScalarType> wire_type;
};

// This is a part of a step that is over; see GradientReducer::set_observer.
struct ReductionSpan {
  enum class Kind {
    copy,       // a parameter's gradient into its bucket
    reduction,  // of a bucket, from the start of its allreduce to where the reducer found it done
    wait        // backward had nothing left to do but to wait for reductions
  };
  Kind kind;
  Clock::time_point begin;
  Clock::time_point end;
  std::size_t bucket = 0;           // its place in buckets(); of a copy or reduction
  std::size_t bytes = 0;            // as they travel; of a copy or reduction
  std::string_view parameter = {};  // of a copy; valid as long as the reducer
};

struct ReducerStatistics {
  std::uint64_t steps = 0;
  double exposed_seconds = 0;  // backward waited for communication after its own work was done
  double copy_seconds = 0;     // gradients to buckets
  std::uint64_t bytes = 0;     // reduced, in all buckets of one step
  std::uint64_t in_place_bytes = 0;  // of those of the last step: were not copied into buckets
  std::size_t buckets = 0;
  // Sources have waited so long at the end of their backward for the others, and for what the last
  // of them then has to do: the sum over sources.
  double source_wait_seconds = 0;
};

// This is what the backward pass of a source throws where that of another one has ended.
class OtherSourceEnded : public Failure {
 public:
  using Failure::Failure;
};

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Hooks into the gradient accumulation of parameters, so that loss.backward() on every rank leaves
// the averaged gradient in .grad of each, the same bits on every rank. Works with whatever
// zero_grad does (none, or zeros), and with gradients accumulated over several backward passes (see
// set_synchronizing).
//
// One backward pass of all sources is a step; every rank runs the same steps (or calls drain).
// Parameters are those that required a gradient at construction; a tensor known under several names
// counts once. Sparse gradients are not supported, nor types other than float32, float64, float16
// and bfloat16.
//
// Parameters may be on a GPU. Buckets are in its memory then (of several sources in that of the
// first), and reach other ranks through pinned memory of the host, copied beside the backward pass;
// .grad is complete for what the calling thread has the GPU do after backward returned.
//
// A function may call backward in its own backward, to compute layers again: the pass around it
// ends the step. Each parameter gets its gradient in one of them only. With allow_unused such a
// pass is an error if it comes first and brings some of the gradients alone.
//
// Threads: backward of each source, and skip(), may run on a thread of its own; the call returns
// when the step is done for all sources. set_synchronizing() of a source may be called from its
// thread, fail() from any. Everything else: one thread at a time, not during backward. Errors:
// UsageError for parameters without a gradient, or with two; Failure from the world. An error in
// the backward pass of one source, also one of the caller's, ends those of the others with an
// OtherSourceEnded that names it; they wait for a source that never runs as long as the world waits
// for a rank (WorldOptions::timeout). After any of these the reducer is not usable again.
// Ownership: keeps references to the parameters; undoes its hooks when destroyed.
class GradientReducer {
 public:
  // Gradients are multiplied by the quotient of two counts in their own type: of others the product
  // could be infinite, or nothing.
  static constexpr double kLeastSamples = 1e-12, kMostSamples = 1e15;
  static bool can_count(double samples) {
    return samples == 0 || (samples >= kLeastSamples && samples <= kMostSamples);
  }

  // `sources[s]` are the parameters of source s: the same names, shapes and types for all, on all
  // ranks (not checked here; see check_same_on_all_ranks). Collective. Throws UsageError on every
  // rank, naming the first difference, where ranks give different options.
  GradientReducer(const comm::Communicator& communicator,
                  std::vector<std::vector<NamedTensor>> sources, ReducerOptions options = {});
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Adds to what the samples behind the gradients of the next step count: as many, or what else
  // weighs them. One call per micro-batch, also for one that counts 0; the same number of calls on
  // every rank. Where all of a source's count 0, its gradients are not looked at. A step without a
  // call counts as the one before; until the first call every rank counts the same. Throws
  // UsageError unless it is 0, or from kLeastSamples to kMostSamples.
  void count_samples(double samples, int source = 0);

  // Throws UsageError if a parameter has been converted or moved to another device since
  // construction, or was frozen then and is not any more: its gradients would not be reduced. So
  // does the next backward that meets another of the parameters. Throws also if the last backward
  // has left parameters without a gradient and could not tell.
  void check_parameters() const;

  // While false, backward only accumulates into .grad; the next backward with true reduces the sum,
  // with allow_unused also of parameters that it does not use itself. It is said of all sources, or
  // of one; synchronizing() is of the first.
  void set_synchronizing(bool on);
  void set_synchronizing(bool on, int source);
  bool synchronizing() const;

  // Takes the place of a source's backward pass in a step for which it has nothing: what its
  // samples count has to be 0 (count_samples). Its .grad are to be undefined before, and hold the
  // average afterwards. Returns when the step is done for all sources.
  void skip(int source);
  // For a source that ends before its backward pass: those of the others end with an
  // OtherSourceEnded that says this.
  void fail(const std::string& why);

  // For a rank that has no more data: takes part, with weight 0, in the steps of those who have,
  // until every rank has called drain. After each such step .grad holds the average, and `on_step`
  // is called, which must do what the others do after their backward (optimizer.step()).
  // Collective.
  void drain(const std::function<void()>& on_step);

  // For a rank that has no data for one step, while others may have: takes part in it with weight
  // 0, after which .grad holds the average as on the others, without what passes that were not
  // synchronized have left in this rank's. False, and .grad untouched, if no rank had any.
  // Collective with the others' backward, or their calls of this.
  bool join_with_zeros();

  // A step without a backward pass of its own, of gradients that several passes which were not
  // synchronized have added up, or that the caller computes: once for each parameter, in any order,
  // .grad of `parameter` is what this source contributes; where it is undefined, nothing.
  // Parameters are numbered as in the constructor's list, from 0, without those that required no
  // gradient. A bucket is reduced from when it has all of its gradients, of all sources. Then
  // finish_step() waits for all of them, and .grad is what it is after a backward pass. Throws
  // UsageError for a number that there is not, where a parameter comes twice, and finish_step()
  // where one is missing: with allow_unused this rank contributes nothing to that. Collective with
  // the same on the others.
  void give_gradient(std::size_t parameter, int source = 0);
  void finish_step();

  // From the next step on, `observer` is told about each span when it is over, one call at a time,
  // in the threads that run backward; empty (as at first) ends that, and costs nothing. To know
  // when reductions are done, the reducer then looks at them after every gradient and while it
  // waits: their ends are exact to the time between two gradients.
  void set_observer(std::function<void(const ReductionSpan&)> observer);

  // Takes work of the caller's for the time in which a step has nothing left to do but to wait for
  // reductions: it is called while one is under way, again and again until it returns false, and
  // then no more in this step; a call should take milliseconds, since reductions go on between
  // calls. Its time counts neither as exposed nor as waiting. It may be left undone. Empty (as at
  // first): none.
  void set_meanwhile(std::function<bool()> work);

  const ReducerStatistics& statistics() const;
  const comm::Communicator& communicator() const;
  // Gives the buckets, as parameter names in the order of reduction. The order is that of
  // registration, reversed, in the first step, and the measured one of rank 0 afterwards, unless it
  // was given.
  std::vector<std::vector<std::string>> buckets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Gives the parameters with the name of their first occurrence, each tensor once.
std::vector<NamedTensor> unique_parameters(const torch::nn::Module& module);
std::vector<NamedTensor> unique_buffers(const torch::nn::Module& module);

// Throws UsageError on every rank, naming the first difference of each differing rank, unless all
// ranks have tensors of the same names, types, shapes, layouts and requires_grad as rank 0.
// Collective.
void check_same_on_all_ranks(const comm::Communicator& communicator,
                             const std::vector<NamedTensor>& tensors);

// Overwrites the tensors with those of the root, which have the same shapes and types; ranks may
// lay them out differently. Collective.
void broadcast_tensors(const comm::Communicator& communicator,
                       const std::vector<NamedTensor>& tensors, int root = 0);

}  // namespace convoy::parallel
