// A step of each placement, simulated as its strategy makes it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/buckets.h"
#include "plan/checks.h"
#include "plan/forecaster.h"

namespace convoy::plan {
namespace {

using Transfer = StepSimulation::Transfer;

// Sums of fewer bytes are made by recursive doubling, and larger ones along a ring
// (docs/communication.md).
constexpr double kSmallSum = 32 << 10;
// Of an exchange, at a time.
constexpr int kPeers = 8;

}  // namespace

void Forecaster::count(const Bytes& bytes) {
  const Spread& out = bytes.out;
  sent_by_all_ += out.usual;
  const double more = out.other - out.usual;
  if (out.count == 0 || more == 0) return;
  const int ranks = partitions(), first = out.first % ranks, end = first + out.count;
  sent_since_[first] += more;
  sent_since_[std::min(end, ranks)] -= more;
  if (end <= ranks) return;
  sent_since_[0] += more;
  sent_since_[end - ranks] -= more;
}

double Forecaster::most_sent() const {
  double more = 0, most = sent_since_.count(0) > 0 ? -std::numeric_limits<double>::infinity() : 0;
  for (const auto& [rank, change] : sent_since_) {
    more += change;
    if (rank < partitions()) most = std::max(most, more);
  }
  return sent_by_all_ + most;
}

std::size_t Forecaster::start_sum(double bytes, int ranks) {
  if (ranks == 1 || bytes == 0) return steps_.start({});
  const double rounds = std::ceil(std::log2(ranks)), others = ranks - 1;
  const bool small = bytes <= kSmallSum;
  const double moved = small ? bytes * rounds : 2 * bytes * others / ranks;
  count({{moved}, {moved}});
  const double link = moved / network_.bandwidth_bytes_per_s;
  return steps_.start({.latency = network_.latency_s * (small ? rounds : 2 * others),
                       .out = {link},
                       .in = {link},
                       .processor = {2 * moved * network_.processor_s_per_byte / share_}});
}

std::size_t Forecaster::start_exchange(const Bytes& bytes) {
  const int others = partitions() - 1;
  if (others == 0) return steps_.start({});
  count(bytes);
  const bool own = network_.exchange_bandwidth_bytes_per_s > 0;
  const double bandwidth =
      own ? network_.exchange_bandwidth_bytes_per_s : network_.bandwidth_bytes_per_s;
  const double latency =
      network_.exchange_latency_s > 0 ? network_.exchange_latency_s : network_.latency_s;
  Transfer transfer;
  transfer.latency = latency * ((others + kPeers - 1) / kPeers);
  const auto on_link = [bandwidth](double moved) { return moved / bandwidth; };
  transfer.out = bytes.out.with(on_link);
  transfer.in = bytes.in.with(on_link);
  // The same ranks are apart from the others in both.
  transfer.processor = bytes.out;
  transfer.processor.usual += bytes.in.usual;
  transfer.processor.other += bytes.in.other;
  transfer.processor = transfer.processor.with(
      [this](double moved) { return moved * network_.processor_s_per_byte / share_; });
  return steps_.start(transfer);
}

void Forecaster::update(std::size_t first, std::size_t end) {
  double bytes = 0;
  for (std::size_t layer = first; layer < end; ++layer) bytes += gradient_bytes(layer);
  compute(bytes * cost_.update_s_per_byte);
}

// Of the layers before `end`, which all ranks have, with their gradients added up meanwhile.
void Forecaster::backward_in_buckets(std::size_t end) {
  std::vector<BucketItem> items;
  std::vector<std::size_t> layer_of;
  for (std::size_t layer = end; layer-- > 0;) {
    const auto& gradients = cost_.layers[layer].gradients;
    for (auto gradient = gradients.rbegin(); gradient != gradients.rend(); ++gradient) {
      items.push_back({static_cast<std::size_t>(gradient->bytes * cost_.sent_part), 0});
      layer_of.push_back(layer);
    }
  }
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto buckets =
      plan_buckets(items, order, static_cast<std::size_t>(cost_.first_bucket_bytes),
                   static_cast<std::size_t>(cost_.bucket_bytes));
  std::vector<std::size_t> sums;
  std::size_t next = 0;
  for (std::size_t layer = end; layer-- > 0;) {
    backward(layer, samples_);
    for (const GradientSize& gradient : cost_.layers[layer].gradients) {
      if (!gradient.in_place || cost_.sent_part < 1) copy(gradient.bytes);
    }
    for (; next < buckets.size() && layer_of[buckets[next].back()] == layer; ++next) {
      double bytes = 0;
      for (const std::size_t item : buckets[next]) bytes += static_cast<double>(items[item].bytes);
      sums.push_back(start_sum(bytes, world_));
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    wait_or_finish(sums[i]);
    if (cost_.sent_part == 1) continue;
    for (const std::size_t item : buckets[i])  // back into the type of the parameters
      copy(static_cast<double>(items[item].bytes) / cost_.sent_part);
  }
}

// Each step all ranks tell each other in a few numbers what they have.
std::size_t Forecaster::start_to_agree() { return start_sum(sizeof(double), world_); }

void Forecaster::data_parallel() {
  const std::size_t layers = cost_.layers.size();
  for (std::size_t layer = 0; layer < layers; ++layer) forward(layer, samples_);
  loss(samples_);
  const std::size_t agreed = start_to_agree();
  backward_in_buckets(layers);
  steps_.wait(agreed);
  update(0, layers);
}

// All ranks work on the samples of all, each on its units.
void Forecaster::model_parallel() {
  const std::size_t layers = cost_.layers.size();
  const double all = samples_ * world_;
  const auto gather = [&](std::size_t layer) {
    if (!divides(layer) || !cost_.layers[layer].gathered) return;
    const double own = all * cost_.layers[layer].output_values * part(layer) * cost_.value_bytes;
    exchange({{own * (world_ - 1)}, {own * (world_ - 1)}});
    copy(all * cost_.layers[layer].output_values * cost_.value_bytes);
  };
  steps_.wait(start_to_agree());
  for (std::size_t layer = 0; layer < layers; ++layer) {
    forward(layer, all);
    gather(layer);
  }
  loss(all);
  for (std::size_t layer = layers; layer-- > 0;) {
    gather(layer);  // parts of its gradient, to those whose units they are of
    backward(layer, all);
  }
  update(0, layers);
}

// What is on its way between layers, once as it came and once put together, and at the boundary.
double Forecaster::exchange_memory() const {
  if (placement_.kind != Parallelism::hybrid) return 0;
  const double samples = pass(0).samples * at_a_time();
  double largest = 0;
  for (std::size_t layer = cost_.head; layer < cost_.layers.size(); ++layer)
    largest = std::max(largest, cost_.layers[layer].output_values);
  // Own activations and their gradient; those of the pass and the next one, and the gradient.
  const double held = samples * (passes() > 1 ? 3 : 2);
  return (2 * samples * largest + (2 * samples_ + held) * cost_.boundary_values) *
         cost_.value_bytes;
}

// What of the samples of all passes is kept for gradients that come later, beside what a pass has.
double Forecaster::late_bytes(std::size_t layer) const {
  const double own = cost_.layers[layer].output_values * part(layer);
  const double samples = samples_ * placement_.partitions;
  // The gradients of outputs, and inputs beyond those of the passes under way.
  const double others = std::max(0.0, samples - pass(0).samples * at_a_time());
  return cost_.value_bytes * (samples * own + others * inputs(layer));
}

double Forecaster::memory() const {
  const double all = samples_ * partitions();
  double parameters = 0, converted = 0, activations = 0;
  for (std::size_t layer = 0; layer < cost_.layers.size(); ++layer) {
    parameters += gradient_bytes(layer);
    // Otherwise gradients are in their buckets.
    const bool in_bucket = placement_.kind == Parallelism::data ||
                           (placement_.kind == Parallelism::hybrid && layer < cost_.head);
    if (in_bucket && cost_.sent_part < 1) converted += cost_.sent_part * gradient_bytes(layer);
    double samples = samples_;
    if (placement_.kind == Parallelism::model) samples = all;
    if (placement_.kind == Parallelism::hybrid && layer >= cost_.head) {
      samples = pass(0).samples * at_a_time();
      if (late(layer)) activations += late_bytes(layer);
    }
    activations += samples * cost_.layers[layer].activation_bytes * part(layer);
    // What it is computed from came from all.
    if (placement_.kind != Parallelism::data && cost_.layers[layer].gathered && divides(layer))
      activations += samples * cost_.layers[layer].output_values * cost_.value_bytes;
  }
  return cost_.process_bytes + parameters * (2 + cost_.optimizer_values) + converted + activations +
         exchange_memory();
}

StepForecast Forecaster::run() {
  if (placement_.kind == Parallelism::data) data_parallel();
  if (placement_.kind == Parallelism::model) model_parallel();
  if (placement_.kind == Parallelism::hybrid) hybrid();
  StepForecast forecast;
  forecast.placement = placement_;
  forecast.step_s = steps_.now();
  forecast.compute_s = steps_.computed();
  forecast.exposed_s = steps_.waited();
  forecast.communication_s = steps_.under_way();
  forecast.sent_bytes = most_sent();
  for (std::size_t layer = 0; layer < cost_.layers.size(); ++layer)
    forecast.parameter_bytes += gradient_bytes(layer);
  forecast.memory_bytes = memory();
  return forecast;
}

double StepForecast::hidden() const {
  return communication_s > 0 ? std::max(0.0, 1 - exposed_s / communication_s) : 1;
}

StepForecast forecast(const TrainingCost& cost, const Network& network, const Processor& processor,
                      int world, std::int64_t samples_per_rank, const Placement& placement) {
  if (world != 1) check_positive("bandwidth_bytes_per_s", network.bandwidth_bytes_per_s);
  check_not_negative("latency_s", network.latency_s);
  check_not_negative("processor_s_per_byte", network.processor_s_per_byte);
  check_positive("the share of a processor", processor.share);
  if (processor.share > 1)
    refuse("the share of a processor", shortest(processor.share), "1 or less");
  check_not_negative("the period of a quota", processor.period_s);
  check_at_least("the number of ranks", world, 1);
  check_at_least("the samples of a rank", samples_per_rank, 1);
  if (placement.partitions < 1 || world % placement.partitions != 0) {
    throw UsageError("groups of " + std::to_string(placement.partitions) + " don't divide " +
                     std::to_string(world) + " ranks");
  }
  if (placement.senders < 0 || placement.senders > placement.partitions) {
    throw UsageError(std::to_string(placement.senders) + " senders in a group of " +
                     std::to_string(placement.partitions));
  }
  if (placement.passes < 0 || (placement.passes > 0 && scheme_of(placement) != "c")) {
    throw UsageError(std::to_string(placement.passes) + " passes of scheme " +
                     scheme_of(placement) + ": other numbers than it has are for c");
  }
  if (placement.kind == Parallelism::hybrid && cost.head >= cost.layers.size())
    throw UsageError("the network has no layers that hybrid divides");
  for (const LayerCost& layer : cost.layers) {
    if (placement.kind != Parallelism::hybrid || layer.parts.empty()) continue;
    if (layer.parts.size() == static_cast<std::size_t>(placement.partitions)) continue;
    throw UsageError("layer '" + layer.name + "' has parts for groups of " +
                     std::to_string(layer.parts.size()) + " ranks, not of " +
                     std::to_string(placement.partitions));
  }
  return Forecaster(cost, network, processor, world, samples_per_rank, placement).run();
}

}  // namespace convoy::plan
