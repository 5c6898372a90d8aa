// A step of the strategy hybrid.
#include <algorithm>

#include "plan/forecaster.h"

namespace convoy::plan {
namespace {

Bytes reversed(Bytes bytes) {
  std::swap(bytes.out, bytes.in);
  return bytes;
}

}  // namespace

// As plan_rounds() of the strategy has them, with as many samples on each rank.
Forecaster::Pass Forecaster::pass(int j) const {
  const int ranks = placement_.partitions, senders = placement_.senders;
  if (senders == 0) return {{samples_}, samples_ * ranks};
  if (senders == ranks) {
    const double piece = static_cast<double>(all_samples_ / ranks + (j < all_samples_ % ranks));
    return {{piece}, piece * ranks};
  }
  // A rank that has fewer samples than passes to send them in has none left for the last ones.
  const int sending = static_cast<int>(std::min<std::int64_t>(senders, all_samples_));
  return {{.usual = 0,
           .other = samples_ / sending,
           .first = (j - sending + 1 + ranks) % ranks,
           .count = sending},
          samples_};
}

Bytes Forecaster::from_senders(const Pass& pass) const {
  const double each = cost_.boundary_values * cost_.value_bytes;
  const double others = placement_.partitions - 1;
  return {pass.pieces.with([&](double piece) { return piece * others * each; }),
          pass.pieces.with([&](double piece) { return (pass.samples - piece) * each; })};
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
  const double others = placement_.partitions - 1;
  return {pass.pieces.with([&](double piece) { return (pass.samples - piece) * own; }),
          pass.pieces.with([&](double piece) { return piece * own * others; })};
}

void Forecaster::train(const Pass& pass) {
  const std::size_t layers = cost_.layers.size();
  const auto values = [&](std::size_t layer) {
    return pass.samples * cost_.layers[layer].output_values;
  };
  // What comes from several is put together, and taken apart on the way back.
  const auto put_together = [&](double count) { copy(count * cost_.value_bytes); };
  for (std::size_t layer = cost_.head; layer < layers; ++layer) {
    forward(layer, pass.samples);
    if (layer + 1 == layers) continue;
    exchange(between(pass, layer));
    put_together(values(layer));
  }
  exchange(to_owners(pass));
  // All wait for the rank that has most of the samples.
  const double most = std::max(pass.pieces.usual, pass.pieces.other);
  put_together(most * cost_.layers[layers - 1].output_values);
  loss(most);
  put_together(most * cost_.layers[layers - 1].output_values);
  exchange(reversed(to_owners(pass)));
  for (std::size_t layer = layers; layer-- > cost_.head;) {
    backward(layer, pass.samples);
    if (layer == cost_.head) continue;
    put_together(values(layer - 1));
    exchange(between(pass, layer - 1));
    add_up(values(layer - 1) * part(layer - 1));
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
  const std::size_t agreed = start_to_agree();
  for (std::size_t layer = 0; layer < cost_.head; ++layer) forward(layer, samples_);
  steps_.wait(agreed);
  const double others = placement_.partitions - 1, boundary = samples_ * cost_.boundary_values;
  if (cost_.numbers_sent) {
    const double bytes = samples_ * others * sizeof(std::int64_t);
    exchange({{bytes}, {bytes}});
  }
  std::vector<std::size_t> gradients;
  std::size_t next = start_exchange(from_senders(pass(0)));
  for (int j = 0; j < passes(); ++j) {
    steps_.wait(next);
    if (j + 1 < passes()) next = start_exchange(from_senders(pass(j + 1)));
    const Pass now = pass(j);
    if (now.samples == 0) continue;
    train(now);
    gradients.push_back(start_exchange(reversed(from_senders(now))));
    if (!placement_.variable_batch) continue;
    for (const std::size_t sum : start_sums_of_head()) steps_.wait(sum);
    update(cost_.head, layers);
  }
  for (const std::size_t gradient : gradients) steps_.wait(gradient);
  add_up(boundary);
  copy(boundary * cost_.value_bytes);  // to where they belong
  std::vector<std::size_t> sums;
  if (!placement_.variable_batch) sums = start_sums_of_head();
  backward_in_buckets(cost_.head);
  for (const std::size_t sum : sums) steps_.wait(sum);
  update(0, placement_.variable_batch ? cost_.head : layers);
}

}  // namespace convoy::plan
