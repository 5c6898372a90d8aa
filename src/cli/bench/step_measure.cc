#include "cli/bench/step_measure.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/median.h"
#include "cli/bench/largest.h"
#include "convoy/base/clock.h"
#include "convoy/base/system.h"
#include "convoy/comm/threads.h"
#include "convoy/train/rehearsal.h"
#include "convoy/train/timeline.h"
#include "train/compute/gpu.h"
#include "train/planning/stopwatch.h"

namespace convoy::cli {
namespace {

constexpr int kWarmUp = 2;

double total(const comm::World& world, double value) {
  std::vector<double> values{value};
  world.communicator().allreduce(comm::buffer_of(values), comm::ReduceOp::sum);
  return values[0];
}

Spread spread_of(const comm::World& world, double value) {
  return {-largest(world, -value), total(world, value) / world.size(), largest(world, value)};
}

// What the ranks have exchanged by kind since `before`, in so many rounds that are alike.
std::vector<ExchangedBytes> exchanged_since(const comm::World& world,
                                            const train::Communicated& before,
                                            const train::Communicated& after, int rounds) {
  std::vector<ExchangedBytes> kinds;
  const auto of_a_round = [&](std::uint64_t then, std::uint64_t now) {
    return largest(world, static_cast<double>(now - then) / rounds);
  };
  for (std::size_t i = 0; i < after.exchanged.size(); ++i) {
    const auto &was = before.exchanged[i], &is = after.exchanged[i];
    const double sent = of_a_round(was.sent, is.sent);
    kinds.push_back({is.name, sent, of_a_round(was.received, is.received)});
  }
  return kinds;
}

Spread sent_since(const comm::World& world, const train::Communicated& before,
                  const train::Communicated& after, int rounds) {
  double sent = 0;
  for (std::size_t i = 0; i < after.exchanged.size(); ++i)
    sent += static_cast<double>(after.exchanged[i].sent - before.exchanged[i].sent);
  return spread_of(world, sent / rounds);
}

// Of about so many seconds, if one takes `seconds`.
int rounds_of(double phase, double seconds) {
  return std::clamp(static_cast<int>(std::ceil(phase / seconds)), 2, 5000);
}

// Trains alone, in a world of its own.
class Copy {
 public:
  Copy(const train::Recipe& recipe, const train::Registry& registry)
      : world_(std::move(comm::thread_transports(1).front()), {}),
        training_(std::in_place, world_, registry, recipe) {}
  ~Copy() {
    training_.reset();
    world_.close();
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void make_updates(int count) { training_->make_updates(count); }

 private:
  comm::World world_;
  std::optional<train::Rehearsal> training_;
};

// What repetitions together have found, by what is measured.
class Together {
 public:
  Together(const comm::World& world, train::Rehearsal& training, StepResult& result)
      : world_(world), training_(training), result_(result) {}

  void run(int steps) {
    const train::Communicated before = training_.strategy().communicated();
    world_.communicator().barrier();
    const double under_way = world_.communication_seconds();
    const train::Stopwatch processor(1);
    const auto start = Clock::now();
    const std::vector<train::StepReport> reports = training_.make_updates(steps);
    const double elapsed = seconds_since(start);
    note("processor", largest(world_, processor.seconds() / steps));
    const double communicated = world_.communication_seconds() - under_way;
    train::StepReport sum;
    for (const train::StepReport& report : reports) {
      sum.samples += report.samples;
      sum.forward_s += report.forward_s;
      sum.backward_s += report.backward_s;
      sum.communication_s += report.communication_s;
      sum.update_s += report.update_s;
    }
    const train::Communicated after = training_.strategy().communicated();
    result_.together.push_back(static_cast<double>(sum.samples) / largest(world_, elapsed));
    note("step", largest(world_, elapsed / steps));
    note("forward", largest(world_, sum.forward_s / steps));
    note("backward", largest(world_, sum.backward_s / steps));
    note("update", largest(world_, sum.update_s / steps));
    note_spread("compute", (sum.forward_s + sum.backward_s + sum.update_s) / steps);
    // Some rank is always last and waits for nobody: the least wait is what communication itself
    // costs.
    note_spread("waiting", sum.communication_s / steps);
    note("copy", largest(world_, (after.sums.copy_seconds - before.sums.copy_seconds) / steps));
    const double all = total(world_, communicated), waited = total(world_, sum.communication_s);
    note("communication", all / steps / world_.size());
    note("hidden", all > 0 ? std::max(0.0, 1 - waited / all) : 1);
    count_bytes(before, after, steps);
  }

  void finish() {
    result_.step_s = middle("step");
    result_.processor_s = middle("processor");
    result_.forward_s = middle("forward");
    result_.backward_s = middle("backward");
    result_.update_s = middle("update");
    result_.compute_s = middle_spread("compute");
    result_.waiting_s = middle_spread("waiting");
    result_.copy_s = middle("copy");
    result_.communication_s = middle("communication");
    result_.hidden = middle("hidden");
  }

 private:
  void note(const char* what, double value) { found_[what].push_back(value); }
  double middle(const char* what) const { return median(found_.at(what)); }
  void note_spread(const char* what, double value) {
    spreads_[what].push_back(spread_of(world_, value));
  }
  Spread middle_spread(const char* what) const {
    std::vector<double> least, mean, most;
    for (const Spread& one : spreads_.at(what)) {
      least.push_back(one.least);
      mean.push_back(one.mean);
      most.push_back(one.most);
    }
    return {median(least), median(mean), median(most)};
  }

  // Every step has the same.
  void count_bytes(const train::Communicated& before, const train::Communicated& after, int steps) {
    result_.buckets = after.sums.buckets;
    result_.bytes = after.sums.bytes;
    result_.in_place_bytes = after.sums.in_place_bytes;
    result_.exchanged = exchanged_since(world_, before, after, steps);
    result_.sent_bytes = sent_since(world_, before, after, steps);
    result_.group_sum_bytes = largest(
        world_, static_cast<double>(after.group_sum_bytes - before.group_sum_bytes) / steps);
  }

  const comm::World& world_;
  train::Rehearsal& training_;
  StepResult& result_;
  std::map<std::string, std::vector<double>> found_;  // by repetition
  std::map<std::string, std::vector<Spread>> spreads_;
};

// The first steps allocate, and choose kernels; the last says how long one takes.
double warm_up(train::Rehearsal& training) {
  training.make_updates(kWarmUp);
  forget_peak_memory();
  const auto start = Clock::now();
  training.make_updates(1);
  return seconds_since(start);
}

// Of the networks that were trained, whose ranks all go forward together.
class Inference {
 public:
  Inference(const comm::World& world, train::Rehearsal& training, InferenceResult& result)
      : world_(world), training_(training), result_(result) {}

  void warm_up(double phase) {
    training_.infer(kWarmUp);
    world_.communicator().barrier();
    const auto start = Clock::now();
    training_.infer(1);
    result_.batches_per_phase = rounds_of(phase, largest(world_, seconds_since(start)));
  }

  void run() {
    const int batches = result_.batches_per_phase;
    const train::Communicated before = training_.strategy().communicated();
    world_.communicator().barrier();
    const double under_way = world_.communication_seconds();
    const auto start = Clock::now();
    training_.infer(batches);
    const double elapsed = seconds_since(start) / batches;
    const double communicated = (world_.communication_seconds() - under_way) / batches;
    result_.seconds.push_back(largest(world_, elapsed));
    communicated_.push_back(total(world_, communicated) / world_.size());
    result_.communication_s = median(communicated_);
    const train::Communicated after = training_.strategy().communicated();
    result_.exchanged = exchanged_since(world_, before, after, batches);
    result_.sent_bytes = sent_since(world_, before, after, batches);
  }

 private:
  const comm::World& world_;
  train::Rehearsal& training_;
  InferenceResult& result_;
  std::vector<double> communicated_;  // by repetition
};

}  // namespace

StepResult measure_step(const comm::World& world, const StepSettings& settings,
                        const train::Registry& registry) {
  StepResult result;
  result.ranks = world.size();
  const train::Recipe recipe = step_recipe(settings.words, world.size(), registry);
  train::Rehearsal training(world, registry, recipe);
  result.threads = at::get_num_threads();
  const double seconds = largest(world, warm_up(training));
  result.memory = spread_of(world, static_cast<double>(peak_memory()));
  std::int64_t parameters = 0;
  torch::Device device = torch::kCPU;
  for (const torch::Tensor& parameter : training.strategy().module().parameters()) {
    parameters += parameter.numel();
    device = parameter.device();
  }
  const auto on_device = train::device_memory(device);
  result.device_memory = spread_of(world, on_device ? static_cast<double>(on_device->peak) : 0.0);
  result.parameters = spread_of(world, static_cast<double>(parameters));
  const int steps = rounds_of(settings.seconds_per_phase, seconds);
  result.steps_per_phase = steps;

  std::optional<Copy> copy;
  // A rank without images has a copy with one.
  const std::int64_t share =
      std::max<std::int64_t>(1, images_of_rank(recipe, world.rank(), world.size()));
  if (recipe.strategy == "sync") {
    train::Recipe alone = independent_recipe(settings.words, share, result.threads, registry);
    if (device.is_cuda()) alone.device = device.str();  // this rank's: it is the first of its world
    copy.emplace(alone, registry);
    copy->make_updates(kWarmUp + 1);
  }
  Together together(world, training, result);
  Inference inference(world, training, result.inference);
  if (settings.inference) inference.warm_up(settings.seconds_per_phase);
  const auto run_alone = [&] {
    world.communicator().barrier();
    const auto start = Clock::now();
    copy->make_updates(steps);
    const double images = static_cast<double>(steps * share);
    result.independent.push_back(total(world, images / seconds_since(start)));
  };
  for (int i = 0; i < settings.repetitions; ++i) {
    // Turns change places, so that neither always runs on the warmer machine.
    if (copy && i % 2 == 1) run_alone();
    together.run(steps);
    if (copy && i % 2 == 0) run_alone();
    if (settings.inference) inference.run();
  }
  together.finish();
  if (!settings.timeline.empty()) {
    train::Timeline timeline;
    world.communicator().barrier();
    training.make_updates(kTimelineSteps, &timeline);
    train::write_timelines(world, timeline, settings.timeline);
  }
  return result;
}

}  // namespace convoy::cli
