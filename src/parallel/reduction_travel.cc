// How buckets get to the other ranks: as they lie, or through the memory of the host where they are
// on a device. A bucket is copied beside the backward pass; its reduction begins when it is there.
#include <algorithm>
#include <chrono>
#include <thread>

#include "base/hold.h"
#include "parallel/channels.h"
#include "parallel/reduction_step.h"
#include "parallel/tensors.h"

namespace convoy::parallel {
namespace {

// The device that all parameters of a source are on; nothing for the CPU, and where they are on
// several.
std::optional<at::Device> common_device(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty() || tensors.front().is_cpu()) return std::nullopt;
  const at::Device device = tensors.front().device();
  for (const at::Tensor& tensor : tensors) {
    if (tensor.device() != device) return std::nullopt;
  }
  return device;
}

}  // namespace

// What is on several devices is gathered in the memory of the host, one gradient at a time.
void ReductionStep::choose_memory() {
  std::vector<at::Tensor> of_first;
  for (const Parameter& p : parameters_) of_first.push_back(p.tensors[0]);
  if (copies_) {  // the caller's
    if (!of_first.empty()) device_ = of_first.front().device();
    return;
  }
  device_ = common_device(of_first);
  if (!device_) return;
  // Contributions of one rank's sources are added up as those of several ranks, by the host.
  const bool alone = communicator_.size() == 1 && !communicator_.reproducible();
  if (!alone) copies_ = copies_of(*device_);
}

// Gives each bucket of the plan its memory; `bytes` are those of the parameters, as they travel.
void ReductionStep::make_memory(const std::vector<std::vector<std::size_t>>& plan,
                                const std::vector<std::size_t>& bytes) {
  // In memory that the other ranks of this host reach: they reduce it in place. Buckets begin at
  // cache lines. All ranks ask for some, whatever their devices are.
  constexpr std::size_t kLine = 64;
  std::vector<std::size_t> begins{0};
  for (const auto& members : plan) {
    std::size_t all = 0;
    for (std::size_t i : members) all += bytes[i];
    begins.push_back(begins.back() + (all + kLine - 1) / kLine * kLine);
  }
  const comm::RegisteredMemory memory = communicator_.allocate(device_ ? kLine : begins.back());
  for (std::size_t b = 0; b < plan.size(); ++b) {
    Bucket& bucket = buckets_[b];
    std::int64_t elements = 0;
    for (std::size_t i : bucket.members) elements += parameters_[i].tensors[0].numel();
    const at::ScalarType type = wire_type(bucket.members.front());
    if (copies_) {
      bucket.flat = copies_->device_memory(elements, type);
      for (std::size_t c = 1; c < own_contributions(); ++c)
        bucket.apart.push_back(copies_->device_memory(elements, type));
      for (std::size_t c = 0; c < own_contributions(); ++c)
        bucket.travels.push_back(copies_->host_memory(elements, type));
      continue;
    }
    // Gradients that alias it keep it alive.
    bucket.flat = device_ ? at::empty({elements}, at::TensorOptions().dtype(type).device(*device_))
                          : at::from_blob(
                                memory.bytes().data() + begins[b], {elements}, [memory](void*) {},
                                torch::TensorOptions().dtype(type));
    for (std::size_t c = 1; c < own_contributions(); ++c)
      bucket.apart.push_back(at::empty_like(bucket.flat));
    bucket.travels.push_back(bucket.flat);
    bucket.travels.insert(bucket.travels.end(), bucket.apart.begin(), bucket.apart.end());
  }
}

// All of its gradients are there, of all sources.
void ReductionStep::start(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  if (device_ && !copies_) return;  // it is what it will be
  if (!copies_) return reduce(bucket);
  b.copies.push_back(copies_->start(b.travels.front(), b.flat));
  for (std::size_t c = 1; c < own_contributions(); ++c)
    b.copies.push_back(copies_->start(b.travels[c], b.apart[c - 1]));
  reduce_what_has_arrived();
}

void ReductionStep::reduce(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  if (observer_) {
    b.started = Clock::now();
    b.reported = false;
  }
  hold_at("allreduce");
  const comm::Match match{channels::kBuckets, static_cast<std::uint16_t>(bucket)};
  if (!several_) {
    b.reduction = communicator_.start_allreduce(buffer_of(b.travels.front()), b.operation, match);
    return;
  }
  std::vector<comm::Buffer> buffers;
  for (const at::Tensor& one : b.travels) buffers.push_back(buffer_of(one));
  b.reduction = communicator_.start_allreduce_of_several(buffers, b.operation, match);
}

void ReductionStep::reduce_what_has_arrived() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    auto& copies = buckets_[b].copies;
    const bool there =
        std::all_of(copies.begin(), copies.end(), [](const auto& copy) { return copy->done(); });
    if (copies.empty() || !there) continue;
    copies.clear();
    reduce(b);
  }
}

// Returns when the bucket is reduced, and has it in `flat` for all that the calling thread has the
// device do from then on.
void ReductionStep::receive(std::size_t bucket) {
  Bucket& b = buckets_[bucket];
  if (device_ && !copies_) return;
  constexpr std::chrono::microseconds kPause(20);
  reduce_what_has_arrived();
  // While any copy is under way, and not only this bucket's: the others' reductions begin as theirs
  // arrive.
  const auto on_their_way = [this] {
    return std::any_of(buckets_.begin(), buckets_.end(),
                       [](const Bucket& other) { return !other.copies.empty(); });
  };
  while (!b.copies.empty() || (on_their_way() && !b.reduction.done())) {
    if (work_left_) {
      report_reductions();
      end_wait();
      work_left_ = meanwhile_();
      waiting_since_ = Clock::now();
    } else if (!communicator_.advance()) {
      std::this_thread::sleep_for(kPause);
    }
    reduce_what_has_arrived();
  }
  wait_for(b.reduction);
  report_reductions();
  if (copies_) copies_->start(b.flat, b.travels.front())->join();
}

}  // namespace convoy::parallel
