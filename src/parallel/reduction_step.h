// One step of gradient reduction: buckets, weights, and the messages between ranks. Knows nothing
// of autograd; GradientReducer tells it which gradient is there.
#pragma once

#include <torch/torch.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/communicator.h"
#include "convoy/parallel/gradient_reducer.h"
#include "parallel/device_copies.h"

namespace convoy::parallel {

// What is said where parameters have no gradient at the end of a step.
std::string without_gradient(const std::string& rank, const std::string& names);

// The order of calls in a step: gradient_ready for each source and parameter, in any order, then
// finish. Or drain alone. One thread at a time.
class ReductionStep {
 public:
  // Gradients on a device travel through the memory of the host by `copies`: null, by those of the
  // device that the parameters of the first source are on, where they are on one and there is
  // somebody to send them to, or the host to add up what several sources contribute.
  ReductionStep(comm::Communicator communicator, std::vector<std::vector<NamedTensor>> sources,
                ReducerOptions options, std::unique_ptr<DeviceCopies> copies = nullptr);

  std::size_t sources() const { return samples_.size(); }
  std::size_t parameters() const { return parameters_.size(); }
  const at::Tensor& parameter(std::size_t source, std::size_t i) const {
    return parameters_[i].tensors[source];
  }

  const std::string& name(std::size_t i) const { return parameters_[i].name; }
  // What required no gradient at construction, of all sources.
  const std::vector<NamedTensor>& frozen() const { return frozen_; }

  void count_samples(std::size_t source, double samples);
  // Memory of the bucket for a gradient that is about to be computed, so that it needn't be copied
  // there; undefined if it has to be. At most once per step and parameter.
  at::Tensor take_slot(std::size_t i);
  void gradient_ready(std::size_t source, std::size_t i);
  // Is called in a pass that is not reduced: .grad will be reduced with that of the next pass that
  // is.
  void gradient_kept(std::size_t source, std::size_t i) { parameters_[i].kept[source] = true; }
  // The names of the parameters that have no gradient of a source yet, in this step.
  std::string names_without_gradient(std::size_t source) const;
  // Reduces what has not come by now as zeros, waits for all buckets and writes .grad.
  void finish();
  bool join_with_zeros();
  void drain(const std::function<void()>& on_step);

  void set_observer(std::function<void(const ReductionSpan&)> observer) {
    observer_ = std::move(observer);
  }
  void set_meanwhile(std::function<bool()> work) { meanwhile_ = std::move(work); }

  const ReducerStatistics& statistics() const { return statistics_; }
  // A source has waited so long for the others, and for what the last of them has to do.
  void note_wait_of_source(double seconds) { statistics_.source_wait_seconds += seconds; }
  const comm::Communicator& communicator() const { return communicator_; }
  std::vector<std::vector<std::string>> bucket_names() const;

 private:
  struct Parameter {
    std::string name;
    std::vector<at::Tensor> tensors;  // one per source
    at::Tensor slot;                  // its part of the bucket, laid out like the parameter
    std::vector<at::Tensor> apart;    // those of Bucket::apart, of the sources after the first
    std::size_t bucket = 0;
    std::size_t arrived = 0;  // sources whose gradient is there
    std::vector<bool> from;   // which
    std::vector<bool> kept;   // sources with a gradient of passes that were not reduced
    bool taken = false;       // the slot, in this step
  };
  struct Bucket {
    std::vector<std::size_t> members;
    at::Tensor flat;  // where gradients are gathered
    // Where those of the other sources are, where each is a contribution of its own: their sum
    // would be rounded before that over ranks is.
    std::vector<at::Tensor> apart;
    // What is reduced, of each contribution: the same memory, or the host's if there are copies_.
    std::vector<at::Tensor> travels;
    comm::ReduceOp operation = comm::ReduceOp::sum;
    std::size_t missing = 0;  // parameters that are not there yet
    // To what travels, until the reduction begins.
    std::vector<std::unique_ptr<DeviceCopies::Copy>> copies;
    comm::Operation reduction;
    Clock::time_point started;
    bool reported = true;  // to the observer
  };
  // What ranks tell each other once per step, summed: one of each contribution.
  struct Control {
    double weight = 0;   // of the gradient, in units of the nominal one
    double working = 0;  // 1 from a rank that runs the step, 0 from one that passes
  };

  std::vector<std::size_t> given_order();
  at::ScalarType wire_type(std::size_t i) const;
  void choose_memory();
  void make_buckets(const std::vector<std::size_t>& order);
  void make_memory(const std::vector<std::vector<std::size_t>>& plan,
                   const std::vector<std::size_t>& bytes);
  // What is added up over ranks: one contribution of each, or one of each of its sources.
  std::size_t own_contributions() const { return several_ ? sources() : 1; }
  double contributions() const {
    return static_cast<double>(communicator_.size()) * static_cast<double>(own_contributions());
  }
  // The samples of a usual contribution.
  double nominal_of_contribution() const {
    return several_ ? nominal_samples_ : nominal_samples_ * static_cast<double>(sources());
  }
  void agree_on_nominal_samples();
  double scale_of(std::size_t source) const;
  void begin(const std::vector<Control>& mine);
  void begin_with_samples();
  void copy_to_bucket(std::size_t i);
  void add_to_slot(at::Tensor& slot, std::size_t source, std::size_t i, bool first, double scale);
  void keep_gradient_apart(std::size_t i);
  void start(std::size_t bucket);
  void reduce(std::size_t bucket);
  void reduce_what_has_arrived();
  void receive(std::size_t bucket);
  void report_reductions();
  std::vector<std::size_t> missing_parameters();
  bool contributes(std::size_t source, std::size_t i) const;
  std::vector<bool> find_used();
  void complete(const std::vector<bool>& used);
  void wait_for(comm::Operation& reduction);
  void end_wait();
  void write_gradients(std::size_t bucket, const std::vector<bool>& used);
  void reset();
  void adopt_measured_order();

  comm::Communicator communicator_;
  ReducerOptions options_;
  bool several_ = false;  // each source is a contribution of its own
  std::vector<Parameter> parameters_;
  std::vector<NamedTensor> frozen_;
  // Where buckets are: on this device; with copies_, by which they go to the host and come back,
  // else with nobody to send them to. Nothing: in memory of the host that is reduced as it lies.
  std::optional<at::Device> device_;
  std::unique_ptr<DeviceCopies> copies_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> arrival_;  // of the current step
  bool order_is_measured_ = false;

  struct Samples {
    double count = 0;
    std::int64_t micro_batches = 0;
    std::optional<double> before = {};  // per micro-batch of the step before

    // Nothing where nobody has ever counted. A backward pass without a forward pass of its own is
    // another one of what the last forward passes led to.
    std::optional<double> per_micro_batch() const {
      if (micro_batches == 0) return before;
      return count / static_cast<double>(micro_batches);
    }
  };
  std::vector<Samples> samples_;  // per source, since the last step
  // The largest share of any source in the first step; 0 until agreed on.
  double nominal_samples_ = 0;
  bool in_step_ = false;
  std::vector<std::array<double, 2>> controls_;  // the sum is in the first
  comm::Operation control_sum_;
  ReducerStatistics statistics_;
  std::function<void(const ReductionSpan&)> observer_;
  std::function<bool()> meanwhile_;
  bool work_left_ = false;  // of it, in this step
  Clock::time_point waiting_since_;
};

}  // namespace convoy::parallel
