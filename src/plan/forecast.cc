// A step of each placement, simulated as its strategy makes it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/buckets.h"
#include "convoy/plan/placement.h"
#include "plan/checks.h"
#include "plan/layer_time.h"
#include "plan/step_simulation.h"

namespace convoy::plan {
namespace {

using Transfer = StepSimulation::Transfer;

// Sums of fewer bytes are made by recursive doubling, and larger ones along a ring
// (docs/communication.md).
constexpr double kSmallSum = 32 << 10;
// Of an exchange, at a time.
constexpr int kPeers = 8;

// What each rank of a group sends and gets, in bytes; one entry where all are alike.
struct Bytes {
  std::vector<double> out, in;
};

class Forecaster {
 public:
  Forecaster(const TrainingCost& cost, const Network& network, double processor_share, int world,
             double samples, const Placement& placement)
      : cost_(cost),
        network_(network),
        share_(processor_share),
        world_(world),
        samples_(samples),
        placement_(placement) {}

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
  // Of the largest part of a layer.
  std::int64_t units(std::size_t layer) const {
    const std::int64_t all = cost_.layers[layer].units;
    return divides(layer) ? (all + partitions() - 1) / partitions() : 0;
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

  void compute(double seconds) { steps_.compute(seconds / share_); }
  void forward(std::size_t layer, double samples) {
    compute(pass_seconds(cost_.layers[layer], samples, units(layer)).forward);
  }
  void backward(std::size_t layer, double samples) {
    compute(pass_seconds(cost_.layers[layer], samples, units(layer)).backward);
  }
  void update(std::size_t first, std::size_t end);

  std::size_t start_sum(double bytes, int ranks);
  std::size_t start_exchange(const Bytes& bytes);
  void exchange(const Bytes& bytes) { steps_.wait(start_exchange(bytes)); }
  void count(const Bytes& bytes);

  void backward_in_buckets(std::size_t end);
  void agree();
  void data_parallel();
  void model_parallel();
  void hybrid();
  // Of a pass of hybrid's, over the pieces of its senders.
  struct Pass {
    std::vector<double> pieces;  // samples of each rank of the group; of one if all are alike
    double samples = 0;          // of all
  };
  std::vector<Pass> passes() const;
  Bytes from_senders(const Pass& pass) const;
  Bytes between(const Pass& pass, std::size_t layer) const;
  Bytes to_owners(const Pass& pass) const;
  void train(const Pass& pass);
  std::vector<std::size_t> start_sums_of_head();

  double memory() const;

  const TrainingCost& cost_;
  const Network& network_;
  double share_;
  int world_;
  double samples_;
  Placement placement_;
  StepSimulation steps_;
  std::vector<double> sent_;  // by the ranks of a group
};

Bytes reversed(Bytes bytes) {
  std::swap(bytes.out, bytes.in);
  return bytes;
}

void Forecaster::count(const Bytes& bytes) {
  // An entry of all, beside those of each: added up at the end.
  const std::size_t ranks = static_cast<std::size_t>(partitions());
  sent_.resize(ranks, 0);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    sent_[rank] += bytes.out[bytes.out.size() == 1 ? 0 : rank];
}

std::size_t Forecaster::start_sum(double bytes, int ranks) {
  if (ranks == 1 || bytes == 0) return steps_.start({});
  const double rounds = std::ceil(std::log2(ranks)), others = ranks - 1;
  const bool small = bytes <= kSmallSum;
  const double moved = small ? bytes * rounds : 2 * bytes * others / ranks;
  count({{moved}, {moved}});
  const double link = moved / network_.bandwidth_bytes_per_s;
  return steps_.start({network_.latency_s * (small ? rounds : 2 * others),
                       {link},
                       {link},
                       {2 * moved * network_.processor_s_per_byte / share_}});
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
  for (std::size_t rank = 0; rank < bytes.out.size(); ++rank) {
    transfer.out.push_back(bytes.out[rank] / bandwidth);
    transfer.in.push_back(bytes.in[rank] / bandwidth);
    transfer.processor.push_back((bytes.out[rank] + bytes.in[rank]) *
                                 network_.processor_s_per_byte / share_);
  }
  return steps_.start(std::move(transfer));
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
      if (!gradient.in_place) compute(gradient.bytes * cost_.copy_s_per_byte);
    }
    for (; next < buckets.size() && layer_of[buckets[next].back()] == layer; ++next) {
      double bytes = 0;
      for (const std::size_t item : buckets[next]) bytes += static_cast<double>(items[item].bytes);
      sums.push_back(start_sum(bytes, world_));
    }
  }
  for (const std::size_t sum : sums) steps_.wait(sum);
}

// Each step all ranks tell each other in a few numbers what they have.
void Forecaster::agree() { steps_.wait(start_sum(sizeof(double), world_)); }

void Forecaster::data_parallel() {
  const std::size_t layers = cost_.layers.size();
  agree();
  for (std::size_t layer = 0; layer < layers; ++layer) forward(layer, samples_);
  backward_in_buckets(layers);
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
  };
  agree();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    forward(layer, all);
    gather(layer);
  }
  for (std::size_t layer = layers; layer-- > 0;) {
    gather(layer);  // parts of its gradient, to those whose units they are of
    backward(layer, all);
  }
  update(0, layers);
}

// As plan_rounds() of the strategy has them, with as many samples on each rank.
std::vector<Forecaster::Pass> Forecaster::passes() const {
  const int ranks = placement_.partitions, senders = placement_.senders;
  if (senders == 0) return {{{samples_}, samples_ * ranks}};
  if (senders == ranks)
    return std::vector<Pass>(static_cast<std::size_t>(ranks), {{samples_ / ranks}, samples_});
  std::vector<Pass> passes;
  for (int j = 0; j < ranks; ++j) {
    Pass& pass = passes.emplace_back();
    pass.pieces.assign(static_cast<std::size_t>(ranks), 0);
    for (int i = 0; i < senders; ++i)
      pass.pieces[static_cast<std::size_t>((j - i + ranks) % ranks)] = samples_ / senders;
    pass.samples = samples_;
  }
  return passes;
}

Bytes Forecaster::from_senders(const Pass& pass) const {
  const double each = cost_.boundary_values * cost_.value_bytes;
  Bytes bytes;
  for (const double piece : pass.pieces) {
    bytes.out.push_back(piece * (placement_.partitions - 1) * each);
    bytes.in.push_back((pass.samples - piece) * each);
  }
  return bytes;
}

Bytes Forecaster::between(const Pass& pass, std::size_t layer) const {
  const double own = pass.samples * cost_.layers[layer].output_values * part(layer);
  const double bytes = own * (placement_.partitions - 1) * cost_.value_bytes;
  return {{bytes}, {bytes}};
}

// The scores of each sample, to the rank whose sample it is.
Bytes Forecaster::to_owners(const Pass& pass) const {
  const std::size_t last = cost_.layers.size() - 1;
  const double own = cost_.layers[last].output_values * part(last) * cost_.value_bytes;
  Bytes bytes;
  for (const double piece : pass.pieces) {
    bytes.out.push_back((pass.samples - piece) * own);
    bytes.in.push_back(piece * own * (placement_.partitions - 1));
  }
  return bytes;
}

void Forecaster::train(const Pass& pass) {
  const std::size_t layers = cost_.layers.size();
  for (std::size_t layer = cost_.head; layer < layers; ++layer) {
    forward(layer, pass.samples);
    if (layer + 1 < layers) exchange(between(pass, layer));
  }
  exchange(to_owners(pass));
  exchange(reversed(to_owners(pass)));
  for (std::size_t layer = layers; layer-- > cost_.head;) {
    backward(layer, pass.samples);
    if (layer > cost_.head) exchange(between(pass, layer - 1));
  }
}

std::vector<std::size_t> Forecaster::start_sums_of_head() {
  std::vector<std::size_t> sums;
  if (groups() == 1) return sums;
  for (std::size_t layer = cost_.head; layer < cost_.layers.size(); ++layer) {
    for (const GradientSize& gradient : cost_.layers[layer].gradients)
      sums.push_back(start_sum(gradient.bytes * part(layer), groups()));
  }
  return sums;
}

void Forecaster::hybrid() {
  const std::size_t layers = cost_.layers.size();
  agree();
  for (std::size_t layer = 0; layer < cost_.head; ++layer) forward(layer, samples_);
  const std::vector<Pass> all = passes();
  std::vector<std::size_t> gradients;
  std::size_t next = start_exchange(from_senders(all.front()));
  for (std::size_t j = 0; j < all.size(); ++j) {
    steps_.wait(next);
    if (j + 1 < all.size()) next = start_exchange(from_senders(all[j + 1]));
    train(all[j]);
    gradients.push_back(start_exchange(reversed(from_senders(all[j]))));
    if (!placement_.variable_batch) continue;
    for (const std::size_t sum : start_sums_of_head()) steps_.wait(sum);
    update(cost_.head, layers);
  }
  for (const std::size_t gradient : gradients) steps_.wait(gradient);
  std::vector<std::size_t> sums;
  if (!placement_.variable_batch) sums = start_sums_of_head();
  backward_in_buckets(cost_.head);
  for (const std::size_t sum : sums) steps_.wait(sum);
  update(0, placement_.variable_batch ? cost_.head : layers);
}

double Forecaster::memory() const {
  const double all = samples_ * partitions();
  double parameters = 0, activations = 0;
  for (std::size_t layer = 0; layer < cost_.layers.size(); ++layer) {
    parameters += gradient_bytes(layer);
    double samples = samples_;
    if (placement_.kind == Parallelism::model) samples = all;
    if (placement_.kind == Parallelism::hybrid && layer >= cost_.head)
      samples = passes().front().samples;
    activations += samples * cost_.layers[layer].activation_bytes * part(layer);
    // What it is computed from came from all.
    if (placement_.kind != Parallelism::data && cost_.layers[layer].gathered && divides(layer))
      activations += samples * cost_.layers[layer].output_values * cost_.value_bytes;
  }
  if (placement_.kind == Parallelism::hybrid) {
    // Own activations and their gradient; those of the pass and the next one, and the gradient.
    const std::vector<Pass> every = passes();
    const double held = every.front().samples * (every.size() > 1 ? 3 : 2);
    activations += (2 * samples_ + held) * cost_.boundary_values * cost_.value_bytes;
  }
  return parameters * (2 + cost_.optimizer_values) + activations;
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
  for (const double sent : sent_) forecast.sent_bytes = std::max(forecast.sent_bytes, sent);
  for (std::size_t layer = 0; layer < cost_.layers.size(); ++layer)
    forecast.parameter_bytes += gradient_bytes(layer);
  forecast.memory_bytes = memory();
  return forecast;
}

}  // namespace

double StepForecast::hidden() const {
  return communication_s > 0 ? std::max(0.0, 1 - exposed_s / communication_s) : 1;
}

StepForecast forecast(const TrainingCost& cost, const Network& network, double processor_share,
                      int world, std::int64_t samples_per_rank, const Placement& placement) {
  check_positive("bandwidth_bytes_per_s", network.bandwidth_bytes_per_s);
  check_not_negative("latency_s", network.latency_s);
  check_not_negative("processor_s_per_byte", network.processor_s_per_byte);
  check_positive("the share of a processor", processor_share);
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
  if (placement.kind == Parallelism::hybrid && cost.head >= cost.layers.size())
    throw UsageError("the network has no layers that hybrid divides");
  return Forecaster(cost, network, processor_share, world, static_cast<double>(samples_per_rank),
                    placement)
      .run();
}

}  // namespace convoy::plan
