// A step of a placement, simulated as its strategy makes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "convoy/plan/placement.h"
#include "plan/layer_time.h"
#include "plan/step_simulation.h"

namespace convoy::plan {

// What each rank of a group sends and gets, in bytes.
struct Bytes {
  Spread out, in;
};

class Forecaster {
 public:
  Forecaster(const TrainingCost& cost, const Network& network, const Processor& processor,
             int world, std::int64_t samples, const Placement& placement)
      : cost_(cost),
        network_(network),
        share_(processor.share),
        world_(world),
        all_samples_(samples),
        samples_(static_cast<double>(samples)),
        placement_(placement),
        steps_(partitions(), processor) {}

  StepForecast run();

 private:
  bool divides(std::size_t layer) const {
    if (placement_.kind == Parallelism::data || cost_.layers[layer].units == 0) return false;
    return placement_.kind == Parallelism::model || layer >= cost_.head;
  }
  int partitions() const {
    return placement_.kind == Parallelism::model ? world_ : placement_.partitions;
  }
  int groups() const { return world_ / placement_.partitions; }
  // Counts the units of the largest part of a layer.
  std::int64_t units(std::size_t layer) const {
    const LayerCost& own = cost_.layers[layer];
    if (!divides(layer)) return 0;
    if (placement_.kind == Parallelism::hybrid && !own.parts.empty())
      return *std::max_element(own.parts.begin(), own.parts.end());
    return (own.units + partitions() - 1) / partitions();
  }
  double part(std::size_t layer) const {
    if (!divides(layer)) return 1;
    return static_cast<double>(units(layer)) / static_cast<double>(cost_.layers[layer].units);
  }
  double gradient_bytes(std::size_t layer) const {
    double bytes = 0;
    for (const GradientSize& gradient : cost_.layers[layer].gradients) bytes += gradient.bytes;
    return bytes * part(layer);
  }

  void compute(double seconds) { steps_.compute(seconds); }
  void copy(double bytes) { compute(bytes * cost_.copy_s_per_byte); }
  // Gradients of so many values, a part of each of the group's ranks.
  void add_up(double values) {
    copy(placement_.partitions * values * cost_.value_bytes);
    if (cost_.sums_converted) copy(values * cost_.value_bytes);
  }
  void forward(std::size_t layer, double samples) {
    compute(pass_seconds(cost_.layers[layer], samples, units(layer)).forward);
  }
  void backward(std::size_t layer, double samples) {
    compute(pass_seconds(cost_.layers[layer], samples, units(layer)).backward);
  }
  void loss(double samples) {
    const PassSeconds taken = pass_seconds(cost_.loss, samples);
    compute(taken.forward + taken.backward);
  }
  void update(std::size_t first, std::size_t end);

  std::size_t start_sum(double bytes, int ranks);
  std::size_t start_exchange(const Bytes& bytes);
  void exchange(const Bytes& bytes) { steps_.wait(start_exchange(bytes)); }
  void count(const Bytes& bytes);

  void backward_in_buckets(std::size_t end);
  std::size_t start_to_agree();
  void data_parallel();
  void model_parallel();
  void hybrid();
  // This is a pass of hybrid's, over the pieces of its senders.
  struct Pass {
    Spread pieces;       // samples of each rank of the group
    double samples = 0;  // of all
  };
  int passes() const {
    if (placement_.senders == 0) return 1;
    return placement_.passes > 0 ? placement_.passes : placement_.partitions;
  }
  // Says how many passes are under way at a time; the next ones begin when these have ended.
  int at_a_time() const {
    const bool pieces = placement_.senders > 1;  // of a rank's samples, some of which may be none
    const std::int64_t most = pieces ? std::min<std::int64_t>(passes(), all_samples_) : passes();
    if (placement_.variable_batch) return 1;
    return static_cast<int>(std::min<std::int64_t>(kPassesUnderWay, most));
  }
  // Counts the values of a row of a layer's input.
  double inputs(std::size_t layer) const {
    return layer == cost_.head ? cost_.boundary_values : cost_.layers[layer - 1].output_values;
  }
  // Whether the gradients of its weights are computed late: what is kept is smaller than they are.
  bool late(std::size_t layer) const {
    if (!cost_.late_gradients || placement_.variable_batch || cost_.layers[layer].gradients.empty())
      return false;
    const double own = cost_.layers[layer].output_values * part(layer);
    return samples_ * placement_.partitions * (inputs(layer) + own) <= inputs(layer) * own;
  }
  Pass pass(int j) const;
  Bytes from_senders(const Pass& pass) const;
  Bytes between(const Pass& pass, std::size_t layer) const;
  Bytes to_owners(const Pass& pass) const;
  void train(const std::vector<Pass>& together,
             const std::function<void(std::size_t)>& await_activations,
             std::vector<std::size_t>& gradients);
  void backward_of_pass(std::size_t layer, double samples);
  void wait_or_finish(std::size_t transfer);
  void finish_late() { compute(std::exchange(late_s_, 0)); }
  std::vector<std::size_t> start_sums_of_head();

  double memory() const;
  double exchange_memory() const;
  double late_bytes(std::size_t layer) const;
  double most_sent() const;

  const TrainingCost& cost_;
  const Network& network_;
  double share_;
  int world_;
  std::int64_t all_samples_;  // of a rank
  double samples_;
  Placement placement_;
  StepSimulation steps_;
  double late_s_ = 0;                 // of gradients of divided weights that are left to compute
  double sent_by_all_ = 0;            // by each rank of a group
  std::map<int, double> sent_since_;  // changes of what is sent beside it, from this rank on
};

}  // namespace convoy::plan
