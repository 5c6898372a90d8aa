// A learner that drives several devices: the data-parallel table of Kumar et al. 2017, section 4.3.
#pragma once

#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/model/network.h"
#include "convoy/model/randomness.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/train/strategy.h"
#include "convoy/train/timeline.h"
#include "train/strategies/devices/options.h"
#include "train/strategies/devices/team.h"

namespace convoy::train {

// A micro-batch of a rank, or of one of its devices: of its share, what counts something.
struct SharePart {
  data::Range rows;  // of the rank's batch
  double weight = 0;
  std::int64_t index = 0;  // of those that the share is cut into
};

// What a device has of a rank's share.
struct DeviceShare {
  std::vector<SharePart> parts;

  double weight() const {
    double all = 0;
    for (const SharePart& part : parts) all += part.weight;
    return all;
  }
};

// Replicas of a network on the devices of this rank, each with a thread, and what they compute of a
// batch together. There are two ways:
//
//   optimized  each device takes its part of the batch from where the rank has it, and computes its
//              loss; all of that goes on side by side up to the sum of gradients
//   baseline   as Torch's DataParallelTable: the whole batch goes to the first device and from
//              there to the others, outputs come back to it, it computes the loss of each device's,
//              and their gradients go back; all devices wait for each other after each step
//
// The gradients of all devices are added up, then those of all ranks. The caller updates the
// weights of the first replica, which the others take over at the begin of the next step. What a
// device computes has the same bits both ways; sums over ranks do where they are reproducible. One
// thread.
class DeviceTable {
 public:
  // The row of a timeline that device 0 has; the others have those behind it.
  static constexpr int kFirstRow = 900;

  // The first replica is the network that the caller knows; they are moved to their devices. Throws
  // UsageError as places_of_devices() and parallel::DistributedCore do. Collective.
  DeviceTable(TrainerContext& context, std::vector<std::shared_ptr<model::Network>> replicas,
              std::vector<double> auxiliary, const parallel::DistributedOptions& options);

  // Whether the threads of devices may communicate with other ranks. The same on every rank.
  static bool devices_may_communicate(const comm::World& world);

  struct Work {
    const data::Batch& batch;
    const std::vector<DeviceShare>& shares;  // one for each device; not all of them empty
    // Is called once, in the caller's thread, when all losses are there: with their sum, each times
    // its weight. Backward passes may be under way.
    std::function<void(double loss)> use_loss;
    // As NoiseMeter::first_part, of the first device.
    std::function<void(double weight, double total)> use_first_part;
    Timeline* timeline = nullptr;
  };
  // Leaves the average of gradients in .grad of the first replica, and adds seconds and numbers to
  // the report. Throws what a device throws, with its name: nothing goes on then. Collective.
  void compute(const Work& work, StepReport& report);

  // Runs the first replica for the calling thread.
  TensorList forward(const TensorList& inputs);

  parallel::GradientReducer& reducer() { return core_.reducer(); }
  const parallel::NormalizationSeconds& normalization_seconds() const {
    return core_.normalization_seconds();
  }
  // The buffers of all replicas, by device.
  std::vector<std::vector<parallel::NamedTensor>> buffers() const;

 private:
  struct Span {
    const char* name;
    Clock::time_point begin, end;
  };
  // What one device has and does in a step; touched by its thread, or between jobs.
  struct Lane {
    Compute compute;
    std::vector<parallel::NamedTensor> trained = {};  // its parameters that have gradients
    double forward_s = 0, backward_s = 0;
    double loss = 0;  // of its micro-batches, each times its weight
    std::uint64_t staged_bytes = 0;
    std::vector<Span> spans = {};
    // Of the micro-batch at hand, in the baseline.
    TensorList inputs = {}, outputs = {};
    TensorList gathered = {};  // outputs on the first device, where their gradients are computed
    TaskBatch rows = {};
  };

  static std::vector<Lane> lanes_of(const TrainerContext& context,
                                    const std::vector<std::shared_ptr<model::Network>>& replicas,
                                    const parallel::DistributedOptions& options);

  std::size_t accumulate() const {
    return static_cast<std::size_t>(context_.recipe().training.accumulate);
  }
  // Of what networks draw for dropout, while it lives and in this thread.
  model::RandomScope random_scope(std::span<const std::size_t> samples) const;
  double loss_of_all() const;
  double end_of(Lane& lane, const char* name, Clock::time_point begin) const;
  void begin(const Work& work);
  void take_weights(std::size_t device);
  void sum_given_gradients(const Work& work);
  void check_given_gradients(const Work& work) const;
  void report_on(const Work& work, StepReport& report, double waited_before);

  // The optimized table.
  void optimized(const Work& work);
  void run_device(const Work& work, std::size_t device);
  void run_part(const Work& work, std::size_t device, const SharePart& part);
  void loss_is_there();
  bool wait_for_losses(std::size_t working);

  // The baseline, in table_baseline.cc.
  void baseline(const Work& work);
  void stage(const Work& work);
  void hand_out(const Work& work, std::size_t part, std::size_t device);
  void run_forward(const Work& work, std::size_t part, std::size_t device);
  void compute_losses(const Work& work, std::size_t part);
  void compute_loss(std::size_t device, const SharePart& part, double all);
  void run_backward(const Work& work, std::size_t part, std::size_t device);

  TrainerContext& context_;
  const DeviceRecipe recipe_;
  const std::vector<double> auxiliary_;
  const std::vector<std::shared_ptr<model::Network>> replicas_;
  std::vector<Lane> lanes_;
  parallel::DistributedCore core_;
  const bool allow_unused_;
  // Gradients are added up when all backward passes are over, by the caller's thread. Two devices
  // of one GPU have theirs in one thread of LibTorch's, where the first would wait for the second;
  // and MPI may let no thread of theirs communicate.
  const bool sums_afterwards_;
  bool draws_are_known_ = false;  // since the first step
  bool recording_ = false;        // spans, in this step
  double forward_s_ = 0, backward_s_ = 0, sum_s_ = 0;
  TensorList staged_;  // in the baseline: the batch, on the first device
  std::mutex mutex_;   // of what follows
  std::condition_variable changed_;
  std::size_t losses_ = 0;  // of devices, that are there
  bool failed_ = false;
  Team team_;  // last: its threads are gone before the rest is
};

// Where a device's thread has to be for what it computes; nothing on the CPU.
inline std::optional<c10::Device> gpu_of(const c10::Device& device) {
  return device.is_cuda() ? std::optional<c10::Device>(device) : std::nullopt;
}

// The same in memory of its own, whose address no batch decides: kernels may go by it.
TensorList in_own_memory(TensorList tensors);

}  // namespace convoy::train
