#include "cli/bench/step_measure.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/median.h"
#include "convoy/base/clock.h"
#include "convoy/base/system.h"
#include "convoy/comm/threads.h"
#include "convoy/train/rehearsal.h"
#include "convoy/train/timeline.h"
#include "train/planning/stopwatch.h"

namespace convoy::cli {
namespace {

constexpr int kWarmUp = 2;

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
    // Some rank is always last and waits for nobody: the least wait is what communication itself
    // costs.
    note("exposed", -largest(world_, -sum.communication_s / steps));
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
    result_.exposed_communication_s = middle("exposed");
    result_.copy_s = middle("copy");
    result_.communication_s = middle("communication");
    result_.hidden = middle("hidden");
  }

 private:
  void note(const char* what, double value) { found_[what].push_back(value); }
  double middle(const char* what) const { return median(found_.at(what)); }

  // Every step has the same.
  void count_bytes(const train::Communicated& before, const train::Communicated& after, int steps) {
    result_.buckets = after.sums.buckets;
    result_.bytes = after.sums.bytes;
    result_.in_place_bytes = after.sums.in_place_bytes;
    result_.exchanged.clear();
    const auto of_a_step = [&](std::uint64_t then, std::uint64_t now) {
      return largest(world_, static_cast<double>(now - then) / steps);
    };
    for (std::size_t i = 0; i < after.exchanged.size(); ++i) {
      const auto &was = before.exchanged[i], &is = after.exchanged[i];
      const double sent = of_a_step(was.sent, is.sent);
      result_.exchanged.push_back({is.name, sent, of_a_step(was.received, is.received)});
    }
    result_.group_sum_bytes = of_a_step(before.group_sum_bytes, after.group_sum_bytes);
  }

  const comm::World& world_;
  train::Rehearsal& training_;
  StepResult& result_;
  std::map<std::string, std::vector<double>> found_;  // by repetition
};

// The first steps allocate, and choose kernels; the last says how long one takes.
double warm_up(train::Rehearsal& training) {
  training.make_updates(kWarmUp);
  forget_peak_memory();
  const auto start = Clock::now();
  training.make_updates(1);
  return seconds_since(start);
}

}  // namespace

StepResult measure_step(const comm::World& world, const StepSettings& settings,
                        const train::Registry& registry) {
  StepResult result;
  result.ranks = world.size();
  const train::Recipe recipe = step_recipe(settings.words, world.size(), registry);
  train::Rehearsal training(world, registry, recipe);
  result.threads = at::get_num_threads();
  const double seconds = largest(world, warm_up(training));
  result.memory = static_cast<std::uint64_t>(largest(world, static_cast<double>(peak_memory())));
  std::int64_t parameters = 0;
  for (const torch::Tensor& parameter : training.strategy().module().parameters())
    parameters += parameter.numel();
  result.parameters = static_cast<std::int64_t>(largest(world, static_cast<double>(parameters)));
  const int steps =
      std::clamp(static_cast<int>(std::ceil(settings.seconds_per_phase / seconds)), 2, 5000);
  result.steps_per_phase = steps;

  std::optional<Copy> copy;
  // A rank without images has a copy with one.
  const std::int64_t share =
      std::max<std::int64_t>(1, images_of_rank(recipe, world.rank(), world.size()));
  if (recipe.strategy == "sync") {
    copy.emplace(independent_recipe(settings.words, share, result.threads, registry), registry);
    copy->make_updates(kWarmUp + 1);
  }
  Together together(world, training, result);
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
