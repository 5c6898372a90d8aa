#include "parallel/reduction_step.h"

#include <algorithm>
#include <numeric>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "parallel/channels.h"
#include "parallel/tensors.h"

namespace convoy::parallel {
namespace {

// The same memory, but no view in autograd's eyes: zero_grad() detaches gradients, which views
// refuse.
at::Tensor alias_of(const at::Tensor& slot) {
  return at::empty({0}, slot.options())
      .set_(slot.storage(), slot.storage_offset(), slot.sizes(), slot.strides());
}

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

}  // namespace

std::string without_gradient(const std::string& rank, const std::string& names) {
  return rank + "no gradient for " + names +
         " in this backward pass. If the model does not use all its parameters in every step, set "
         "allow_unused; if they are frozen, freeze them before the model is distributed";
}

ReductionStep::ReductionStep(comm::Communicator communicator,
                             std::vector<std::vector<NamedTensor>> sources, ReducerOptions options,
                             std::unique_ptr<DeviceCopies> copies)
    : communicator_(std::move(communicator)),
      options_(std::move(options)),
      copies_(std::move(copies)),
      samples_(sources.size()) {
  if (sources.empty() || options_.bucket_bytes == 0) {
    throw UsageError("a gradient reducer needs at least one source and a bucket size above 0");
  }
  several_ = sources.size() > 1 && communicator_.reproducible();
  for (std::size_t i = 0; i < sources[0].size(); ++i) {
    if (!sources[0][i].tensor.requires_grad()) {
      for (const auto& source : sources) frozen_.push_back(source.at(i));
      continue;
    }
    Parameter& p = parameters_.emplace_back();
    p.name = sources[0][i].name;
    for (const auto& source : sources) p.tensors.push_back(source.at(i).tensor);
    p.from.assign(sources.size(), false);
    p.kept.assign(sources.size(), false);
  }
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});  // backward meets the last layers first
  if (!options_.order.empty()) order = given_order();
  choose_memory();
  make_buckets(order);
}

void ReductionStep::count_samples(std::size_t source, double samples) {
  samples_[source].count += samples;
  ++samples_[source].micro_batches;
}

// With weights in units of the usual batch they add up to the number of contributions in all but
// the last steps of an epoch, so that an average over these is all there is to do.
void ReductionStep::agree_on_nominal_samples() {
  if (nominal_samples_ == 0) nominal_samples_ = options_.nominal_samples;
  if (nominal_samples_ > 0) return;
  std::vector<double> samples(1, 0.0);
  for (const Samples& s : samples_) {
    const double own = s.per_micro_batch().value_or(0);
    // As many ranks with one source each would agree on the largest share.
    samples[0] =
        several_ ? std::max(samples[0], own) : samples[0] + own / static_cast<double>(sources());
  }
  communicator_.allreduce(comm::buffer_of(samples), comm::ReduceOp::max, channels::kNominal);
  nominal_samples_ = samples[0] > 0 ? samples[0] : 1;
}

void ReductionStep::begin(const std::vector<Control>& mine) {
  work_left_ = meanwhile_ != nullptr;
  in_step_ = true;
  statistics_.in_place_bytes = 0;
  controls_.clear();
  for (const Control& control : mine) controls_.push_back({control.weight, control.working});
  if (!several_) {
    control_sum_ = communicator_.start_allreduce(comm::buffer_of(controls_.front()),
                                                 comm::ReduceOp::sum, channels::kControl);
    return;
  }
  std::vector<comm::Buffer> buffers;
  for (std::array<double, 2>& control : controls_)
    buffers.emplace_back(control.data(), control.size(), comm::Type::f64);
  control_sum_ =
      communicator_.start_allreduce_of_several(buffers, comm::ReduceOp::sum, channels::kControl);
}

void ReductionStep::begin_with_samples() {
  agree_on_nominal_samples();
  const bool by_samples = options_.averaging == Averaging::samples;
  const double nominal = nominal_of_contribution();
  std::vector<Control> mine;
  double samples = 0;
  bool counted = false;
  for (const Samples& s : samples_) {
    const std::optional<double> own = s.per_micro_batch();
    counted |= by_samples && own;
    samples += own.value_or(0);
    if (several_) mine.push_back({by_samples && own ? *own / nominal : 1.0, 1.0});
  }
  if (!several_) mine.push_back({counted ? samples / nominal : 1.0, 1.0});
  begin(mine);
}

at::Tensor ReductionStep::take_slot(std::size_t i) {
  Parameter& p = parameters_[i];
  const at::Tensor& tensor = p.tensors[0];
  if (sources() > 1 || p.taken || !options_.gradient_as_bucket_view || tensor.grad().defined() ||
      !tensor.is_cpu() || tensor.scalar_type() != p.slot.scalar_type()) {
    return {};
  }
  p.taken = true;
  return alias_of(p.slot);
}

void ReductionStep::gradient_ready(std::size_t source, std::size_t i) {
  Parameter& p = parameters_[i];
  if (p.from[source]) {
    throw UsageError("parameter '" + p.name +
                     "' got its gradient twice in one backward pass; run one backward pass "
                     "per step, or accumulate with no_sync()");
  }
  p.from[source] = true;
  if (++p.arrived < sources()) return;
  if (!in_step_) begin_with_samples();
  arrival_.push_back(i);
  copy_to_bucket(i);
  if (--buckets_[p.bucket].missing == 0) start(p.bucket);
  if (copies_) reduce_what_has_arrived();
  communicator_.advance();
  report_reductions();
}

// 1 for a contribution of the usual number of samples; of several sources that make one together
// each has its part.
double ReductionStep::scale_of(std::size_t source) const {
  if (options_.averaging == Averaging::sum) return 1;
  const std::optional<double> own = samples_[source].per_micro_batch();
  if (options_.averaging == Averaging::samples && own) return *own / nominal_of_contribution();
  return static_cast<double>(own_contributions()) / static_cast<double>(sources());
}

// Whether .grad has something to reduce. Autograd may tell of a gradient that a function of the
// caller's has left undefined.
bool ReductionStep::contributes(std::size_t source, std::size_t i) const {
  const Parameter& p = parameters_[i];
  return (p.from[source] || p.kept[source]) && p.tensors[source].grad().defined();
}

// The one pass over a gradient that is not in its place: copy, scale and conversion together.
// `first`: nothing is in the slot yet.
void ReductionStep::add_to_slot(at::Tensor& slot, std::size_t source, std::size_t i, bool first,
                                double scale) {
  const at::Tensor& grad = parameters_[i].tensors[source].grad();
  // The mean of nothing may be no number.
  if (scale == 0 || !contributes(source, i)) {
    if (first) slot.zero_();
  } else if (!first) {
    slot.add_(grad.to(slot.device()), scale);
  } else if (same_memory(grad, slot)) {
    statistics_.in_place_bytes += slot.nbytes();
    if (scale != 1) slot.mul_(scale);
  } else {
    // From another device it comes as it is: what is rounded, and how often, is the same.
    copy_scaled(slot, grad.to(slot.device()), scale);
  }
}

// The sum over sources in their order, unless each is apart.
void ReductionStep::copy_to_bucket(std::size_t i) {
  const auto start = Clock::now();
  const torch::NoGradGuard no_grad;
  Parameter& p = parameters_[i];
  const bool divided_later = buckets_[p.bucket].operation == comm::ReduceOp::average;
  const bool sum = divided_later || options_.averaging == Averaging::sum;
  const double divisor = sum ? 1 : contributions();
  for (std::size_t s = 0; s < sources(); ++s) {
    const at::Tensor& grad = p.tensors[s].grad();
    if (grad.defined() && grad.is_sparse())
      throw UsageError("parameter '" + p.name + "' has a sparse gradient, which is not supported");
    at::Tensor& slot = several_ && s > 0 ? p.apart[s - 1] : p.slot;
    add_to_slot(slot, s, i, s == 0 || several_, scale_of(s) / divisor);
  }
  statistics_.copy_seconds += seconds_since(start);
  if (observer_) {
    observer_({ReductionSpan::Kind::copy, start, Clock::now(), p.bucket, p.slot.nbytes(), p.name});
  }
}

// The gradient of passes that were not reduced stays, if nobody uses the parameter in this one.
void ReductionStep::keep_gradient_apart(std::size_t i) {
  if (!options_.allow_unused) return;
  Parameter& p = parameters_[i];
  for (at::Tensor& tensor : p.tensors) {
    at::Tensor& grad = tensor.mutable_grad();
    if (grad.defined() && same_memory(grad, p.slot)) grad = grad.clone();
  }
}

// Those that are done by now, and were not when this was called before.
void ReductionStep::report_reductions() {
  if (!observer_) return;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& b = buckets_[i];
    if (b.reported || !b.reduction.done()) continue;
    b.reported = true;
    observer_({ReductionSpan::Kind::reduction, b.started, Clock::now(), i, b.flat.nbytes()});
  }
}

std::string ReductionStep::names_without_gradient(std::size_t source) const {
  std::string names;
  for (const Parameter& p : parameters_) {
    if (!p.from[source]) names += (names.empty() ? "" : ", ") + p.name;
  }
  return names;
}

std::vector<std::size_t> ReductionStep::missing_parameters() {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].arrived < sources()) missing.push_back(i);
  }
  return missing;
}

// Which parameters some rank used since the last step.
std::vector<bool> ReductionStep::find_used() {
  if (!options_.allow_unused) return std::vector<bool>(parameters_.size(), true);
  std::vector<std::uint8_t> used(parameters_.size(), 0);
  for (std::size_t i = 0; i < used.size(); ++i) {
    for (std::size_t s = 0; s < sources(); ++s) used[i] |= contributes(s, i) ? 1 : 0;
  }
  communicator_.allreduce(comm::buffer_of(used), comm::ReduceOp::max, channels::kUsed);
  return {used.begin(), used.end()};
}

void ReductionStep::finish() {
  const std::vector<std::size_t> missing = missing_parameters();
  if (!missing.empty() && !options_.allow_unused) {
    std::string names;
    for (std::size_t i : missing) names += (names.empty() ? "" : ", ") + parameters_[i].name;
    throw UsageError(
        without_gradient("rank " + std::to_string(communicator_.rank()) + ": ", names));
  }
  if (!in_step_) begin_with_samples();  // nothing has come from all sources
  for (std::size_t i : missing) {
    Parameter& p = parameters_[i];
    keep_gradient_apart(i);
    copy_to_bucket(i);
    if (--buckets_[p.bucket].missing == 0) start(p.bucket);
  }
  complete(find_used());
  adopt_measured_order();
  reset();
}

void ReductionStep::wait_for(comm::Operation& reduction) {
  while (work_left_ && !reduction.done()) {
    report_reductions();
    end_wait();
    work_left_ = meanwhile_();
    waiting_since_ = Clock::now();
  }
  reduction.wait();
}

void ReductionStep::end_wait() {
  const auto now = Clock::now();
  statistics_.exposed_seconds += std::chrono::duration<double>(now - waiting_since_).count();
  if (observer_) observer_({ReductionSpan::Kind::wait, waiting_since_, now});
}

void ReductionStep::complete(const std::vector<bool>& used) {
  waiting_since_ = Clock::now();
  wait_for(control_sum_);
  const double weight = controls_.front()[0];
  const bool rescale = options_.averaging != Averaging::sum && weight != contributions();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    receive(b);
    if (rescale && weight > 0) buckets_[b].flat.mul_(contributions() / weight);
    write_gradients(b, used);
  }
  for (Parameter& p : parameters_) p.kept.assign(sources(), false);
  ++statistics_.steps;
  end_wait();
}

void ReductionStep::write_gradients(std::size_t bucket, const std::vector<bool>& used) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i : buckets_[bucket].members) {
    if (!used[i]) continue;
    Parameter& p = parameters_[i];
    for (at::Tensor& tensor : p.tensors) {
      const bool viewable = options_.gradient_as_bucket_view &&
                            tensor.device() == p.slot.device() &&
                            tensor.scalar_type() == p.slot.scalar_type();
      at::Tensor& grad = tensor.mutable_grad();
      if (viewable) {
        if (!grad.defined() || grad.data_ptr() != p.slot.data_ptr()) grad = alias_of(p.slot);
      } else if (grad.defined()) {
        grad.copy_(p.slot);
      } else {
        grad = at::empty_like(tensor).copy_(p.slot);
      }
    }
  }
}

void ReductionStep::reset() {
  for (Parameter& p : parameters_) {
    p.arrived = 0;
    p.from.assign(sources(), false);
    p.taken = false;
  }
  for (Bucket& bucket : buckets_) bucket.missing = bucket.members.size();
  for (Samples& s : samples_) s = {.before = s.per_micro_batch()};
  arrival_.clear();
  in_step_ = false;
}

bool ReductionStep::join_with_zeros() {
  if (in_step_) throw UsageError("a rank can't join with zeros during a backward pass of its own");
  agree_on_nominal_samples();
  begin(std::vector<Control>(own_contributions()));
  waiting_since_ = Clock::now();
  wait_for(control_sum_);
  end_wait();
  const bool somebody = controls_.front()[1] > 0;
  if (somebody) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) keep_gradient_apart(i);
    for (Bucket& bucket : buckets_) {
      bucket.flat.zero_();
      for (at::Tensor& other : bucket.apart) other.zero_();
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) start(b);
    complete(find_used());
    adopt_measured_order();
  }
  reset();
  return somebody;
}

void ReductionStep::drain(const std::function<void()>& on_step) {
  while (join_with_zeros()) on_step();
}

}  // namespace convoy::parallel
