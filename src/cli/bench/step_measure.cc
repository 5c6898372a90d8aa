#include "cli/bench/step_measure.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "cli/bench/median.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/parallel/distributed_model.h"
#include "convoy/train/autocast.h"
#include "convoy/train/fused_optimizers.h"
#include "convoy/train/layout.h"
#include "convoy/train/memory.h"
#include "convoy/train/timeline.h"

namespace convoy::cli {
namespace {

struct Times {
  double forward = 0, backward = 0, update = 0;
};

// One copy of the model with its optimizer and a fixed batch, alone or as a part of the world.
class Copy {
 public:
  Copy(const comm::World* world, const StepSettings& s) : bf16_(s.precision == "bfloat16") {
    torch::manual_seed(1);
    network_ = model::make_model(s.model, {});
    const auto [channels, height, width] = network_->image_shape();
    images_ = torch::randn({s.batch_per_rank, channels, height, width});
    targets_ = torch::randint(network_->classes(), {s.batch_per_rank}, torch::kLong);
    if (s.channels_last) {
      train::to_channels_last(*network_);
      images_ = images_.contiguous(at::MemoryFormat::ChannelsLast);
    }
    const auto options = torch::optim::SGDOptions(1e-3).momentum(0.9).weight_decay(1e-4);
    if (s.fused_update)
      optimizer_ = std::make_unique<train::FusedSgd>(network_->parameters(), options);
    else
      optimizer_ = std::make_unique<torch::optim::SGD>(network_->parameters(), options);
    if (world != nullptr) {
      parallel::DistributedOptions distributed;
      if (s.bucket_bytes > 0) distributed.bucket_bytes = s.bucket_bytes;
      distributed.compute_in_buckets = s.compute_in_buckets;
      distributed_.emplace(*world, network_, distributed);
    }
  }

  Times step() {
    Times t;
    const auto begin = Clock::now();
    auto start = begin;
    optimizer_->zero_grad();
    at::Tensor loss;
    {
      const train::Autocast autocast(bf16_);
      const at::Tensor logits =
          distributed_ ? distributed_->forward(images_) : network_->forward(images_);
      loss = torch::nn::functional::cross_entropy(logits.to(at::kFloat), targets_);
    }
    t.forward = end_of("forward", start);
    start = Clock::now();
    loss.backward();
    t.backward = end_of("backward", start);
    start = Clock::now();
    optimizer_->step();
    t.update = end_of("update", start);
    end_of("step", begin);
    return t;
  }

  // Makes steps whose spans go to a timeline.
  void record(int steps, train::Timeline& timeline) {
    const train::ReducerRows rows(timeline, distributed_->reducer());
    timeline_ = &timeline;
    for (int i = 0; i < steps; ++i) step();
    timeline_ = nullptr;
  }

  const parallel::ReducerStatistics& statistics() const { return distributed_->statistics(); }

 private:
  // The seconds of a phase that ends now.
  double end_of(const char* phase, Clock::time_point start) {
    const auto now = Clock::now();
    if (timeline_ != nullptr) timeline_->add(train::Timeline::kTraining, phase, start, now);
    return std::chrono::duration<double>(now - start).count();
  }

  bool bf16_;
  train::Timeline* timeline_ = nullptr;  // while steps are recorded
  std::shared_ptr<model::Network> network_;
  at::Tensor images_, targets_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<parallel::DistributedModel<model::Network>> distributed_;
};

double largest(const comm::World& world, double value) {
  std::vector<double> values{value};
  world.communicator().allreduce(comm::buffer_of(values), comm::ReduceOp::max);
  return values[0];
}

double total(const comm::World& world, double value) {
  std::vector<double> values{value};
  world.communicator().allreduce(comm::buffer_of(values), comm::ReduceOp::sum);
  return values[0];
}

}  // namespace

StepResult measure_step(const comm::World& world, const StepSettings& settings) {
  if (settings.keep_blocks) train::keep_large_blocks({.processes = world.local_size()});
  Copy alone(nullptr, settings), together(&world, settings);
  StepResult result;
  result.ranks = world.size();
  result.threads = at::get_num_threads();

  // The first steps allocate, and choose kernels; the third says how many fill a phase.
  double seconds = 0;
  for (int i = 0; i < 3; ++i) {
    alone.step();
    const auto start = Clock::now();
    together.step();
    seconds = seconds_since(start);
  }
  const int steps = std::clamp(
      static_cast<int>(std::ceil(settings.seconds_per_phase / largest(world, seconds))), 2, 5000);
  result.steps_per_phase = steps;
  const double images = static_cast<double>(steps) * static_cast<double>(settings.batch_per_rank);

  std::vector<double> forward, backward, exposed, update, copy;
  const auto run_together = [&] {
    Times sum;
    const auto before = together.statistics();
    world.communicator().barrier();
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      const Times t = together.step();
      sum.forward += t.forward;
      sum.backward += t.backward;
      sum.update += t.update;
    }
    const double elapsed = seconds_since(start);
    result.together.push_back(images * world.size() / largest(world, elapsed));
    const double waited = (together.statistics().exposed_seconds - before.exposed_seconds) / steps;
    forward.push_back(largest(world, sum.forward / steps));
    backward.push_back(largest(world, sum.backward / steps - waited));
    // Some rank is always last and waits for nobody: the least wait is what communication itself
    // costs.
    exposed.push_back(-largest(world, -waited));
    update.push_back(largest(world, sum.update / steps));
    copy.push_back(
        largest(world, (together.statistics().copy_seconds - before.copy_seconds) / steps));
  };
  const auto run_alone = [&] {
    world.communicator().barrier();
    const auto start = Clock::now();
    for (int i = 0; i < steps; ++i) alone.step();
    result.independent.push_back(total(world, images / seconds_since(start)));
  };
  for (int i = 0; i < settings.repetitions; ++i) {
    // Turns change places, so that neither always runs on the warmer machine.
    if (i % 2 == 0) {
      run_together();
      run_alone();
    } else {
      run_alone();
      run_together();
    }
  }
  result.forward_s = median(forward);
  result.backward_s = median(backward);
  result.exposed_communication_s = median(exposed);
  result.update_s = median(update);
  result.copy_s = median(copy);
  result.buckets = together.statistics().buckets;
  result.bytes = together.statistics().bytes;
  result.in_place_bytes = together.statistics().in_place_bytes;
  if (!settings.timeline.empty()) {
    train::Timeline timeline;
    world.communicator().barrier();
    together.record(kTimelineSteps, timeline);
    train::write_timelines(world, timeline, settings.timeline);
  }
  return result;
}

}  // namespace convoy::cli
