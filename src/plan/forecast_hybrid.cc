// A step of the strategy hybrid.
#include <algorithm>

#include "convoy/base/even_share.h"
#include "plan/forecaster.h"

namespace convoy::plan {
namespace {

// Seconds of a processor, of gradients that are computed in place of waiting.
constexpr double kSome = 0.005;

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
    const int count = passes();
    const double piece = static_cast<double>(evenly<std::int64_t>(all_samples_, count, j).size);
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

// Of the two products of a fully connected layer's backward, those of weights may come later.
void Forecaster::backward_of_pass(std::size_t layer, double samples) {
  compute(pass_seconds(cost_.layers[layer], samples, units(layer)).backward /
          (late(layer) ? 2 : 1));
}

// In place of waiting.
void Forecaster::wait_or_finish(std::size_t transfer) {
  while (late_s_ > 0 && !steps_.ended(transfer)) {
    const double some = std::min(late_s_, kSome);
    late_s_ -= some;
    compute(some);
  }
  steps_.wait(transfer);
}

// Passes that are made together, a step of each in turn.
void Forecaster::train(const std::vector<Pass>& together,
                       const std::function<void(std::size_t)>& await_activations,
                       std::vector<std::size_t>& gradients) {
  const std::size_t layers = cost_.layers.size(), passes = together.size();
  // What comes from several is put together, and taken apart on the way back.
  const auto put_together = [&](double count) { copy(count * cost_.value_bytes); };
  std::vector<std::size_t> coming(passes);
  for (std::size_t layer = cost_.head; layer < layers; ++layer) {
    for (std::size_t i = 0; i < passes; ++i) {
      if (layer == cost_.head) {
        await_activations(i);
      } else {
        steps_.wait(coming[i]);
        put_together(together[i].samples * cost_.layers[layer - 1].output_values);
      }
      forward(layer, together[i].samples);
      coming[i] =
          start_exchange(layer + 1 < layers ? between(together[i], layer) : to_owners(together[i]));
    }
  }
  for (std::size_t i = 0; i < passes; ++i) {
    steps_.wait(coming[i]);
    // All wait for the rank that has most of the samples.
    const double most = std::max(together[i].pieces.usual, together[i].pieces.other);
    put_together(most * cost_.layers[layers - 1].output_values);
    loss(most);
    put_together(most * cost_.layers[layers - 1].output_values);
    coming[i] = start_exchange(reversed(to_owners(together[i])));
  }
  for (std::size_t layer = layers; layer-- > cost_.head;) {
    for (std::size_t i = 0; i < passes; ++i) {
      const double samples = together[i].samples;
      steps_.wait(coming[i]);
      if (layer + 1 < layers) add_up(samples * cost_.layers[layer].output_values * part(layer));
      backward_of_pass(layer, samples);
      if (layer == cost_.head) {
        gradients.push_back(start_exchange(reversed(from_senders(together[i]))));
        continue;
      }
      put_together(samples * cost_.layers[layer - 1].output_values);
      coming[i] = start_exchange(between(together[i], layer - 1));
    }
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
  std::vector<Pass> all;
  for (int j = 0; j < passes(); ++j) {
    all.push_back(pass(j));
    if (all.back().samples == 0) all.pop_back();
  }
  const auto group = static_cast<std::size_t>(at_a_time());
  std::vector<std::size_t> activations, gradients;
  const auto ask_until = [&](std::size_t end) {
    for (std::size_t j = activations.size(); j < std::min(end, all.size()); ++j)
      activations.push_back(start_exchange(from_senders(all[j])));
  };
  ask_until(1);
  for (std::size_t first = 0; first < all.size(); first += group) {
    const std::size_t end = std::min(first + group, all.size());
    train(
        {all.begin() + static_cast<std::ptrdiff_t>(first),
         all.begin() + static_cast<std::ptrdiff_t>(end)},
        [&](std::size_t i) {
          steps_.wait(activations[first + i]);
          ask_until(first + i + 1 < end ? first + i + 2 : end + group);
        },
        gradients);
    if (!placement_.variable_batch) continue;
    for (const std::size_t sum : start_sums_of_head()) steps_.wait(sum);
    update(cost_.head, layers);
  }
  for (std::size_t layer = cost_.head; layer < layers; ++layer) {
    if (!late(layer)) continue;
    const double samples = samples_ * placement_.partitions;
    late_s_ += pass_seconds(cost_.layers[layer], samples, units(layer)).backward / 2;
  }
  for (const std::size_t gradient : gradients) wait_or_finish(gradient);
  add_up(boundary);
  copy(boundary * cost_.value_bytes);  // to where they belong
  std::vector<std::size_t> sums;
  if (groups() > 1) finish_late();
  if (!placement_.variable_batch) sums = start_sums_of_head();
  backward_in_buckets(cost_.head);
  finish_late();
  for (const std::size_t sum : sums) steps_.wait(sum);
  update(0, placement_.variable_batch ? cost_.head : layers);
}

}  // namespace convoy::plan
