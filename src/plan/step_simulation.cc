#include "plan/step_simulation.h"

#include <algorithm>
#include <limits>

namespace convoy::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of a processor that computes as well.
constexpr double kMostTaken = 0.5;
// What is left of a transfer, or of a quota, when nothing is.
constexpr double kNothing = 1e-12;

}  // namespace

std::size_t StepSimulation::start(Transfer transfer) {
  active_.push_back({started_, transfer, transfer.latency});
  return started_++;
}

bool StepSimulation::active(std::size_t transfer) const {
  return std::any_of(active_.begin(), active_.end(),
                     [transfer](const Flow& flow) { return flow.number == transfer; });
}

std::vector<int> StepSimulation::different_ranks() const {
  std::vector<int> ranks{0};
  for (const Flow& flow : active_) {
    for (const Spread* spread : {&flow.transfer.out, &flow.transfer.in, &flow.transfer.processor}) {
      if (spread->count == 0) continue;
      ranks.push_back(spread->first % ranks_);
      ranks.push_back((spread->first + spread->count) % ranks_);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// The part of it that moves in a second.
std::vector<double> StepSimulation::rates(bool computing) const {
  const std::vector<int> ranks = different_ranks();
  std::vector<double> rates(active_.size(), 0);
  std::vector<int> out(ranks.size(), 0), in(ranks.size(), 0);  // flows on each link
  const auto count = [&](std::vector<int>& links, const Spread& loads) {
    for (std::size_t i = 0; i < ranks.size(); ++i) links[i] += loads.of(ranks[i], ranks_) > 0;
  };
  for (const Flow& flow : active_) {
    if (flow.latency > 0) continue;
    count(out, flow.transfer.out);
    count(in, flow.transfer.in);
  }
  for (std::size_t f = 0; f < active_.size(); ++f) {
    const Flow& flow = active_[f];
    if (flow.latency > 0) continue;
    double rate = kNever;
    const auto slow = [&rate](double load, int flows) {
      if (load > 0) rate = std::min(rate, 1 / (load * flows));
    };
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      slow(flow.transfer.out.of(ranks[i], ranks_), out[i]);
      slow(flow.transfer.in.of(ranks[i], ranks_), in[i]);
      slow(flow.transfer.processor.of(ranks[i], ranks_), 1);
    }
    rates[f] = rate;
  }
  const double taken = processor_taken(rates, ranks), most = computing ? kMostTaken : 1;
  if (taken > most) {
    for (double& rate : rates) rate *= most / taken;
  }
  return rates;
}

// Of the busiest rank's.
double StepSimulation::processor_taken(const std::vector<double>& rates,
                                       const std::vector<int>& ranks) const {
  double most = 0;
  for (const int rank : ranks) {
    double taken = 0;
    for (std::size_t f = 0; f < active_.size(); ++f) {
      const double load = active_[f].transfer.processor.of(rank, ranks_);
      if (load > 0) taken += rates[f] * load;
    }
    most = std::max(most, taken);
  }
  return most;
}

// The time until a transfer begins to move, or ends.
double StepSimulation::next_change(const std::vector<double>& rates) const {
  double next = kNever;
  for (std::size_t f = 0; f < active_.size(); ++f) {
    const Flow& flow = active_[f];
    next = std::min(next, flow.latency > 0 ? flow.latency : flow.left / rates[f]);
  }
  return next;
}

void StepSimulation::pass(double seconds, const std::vector<double>& rates) {
  now_ += seconds;
  if (!active_.empty()) under_way_ += seconds;
  for (std::size_t f = 0; f < active_.size(); ++f) {
    Flow& flow = active_[f];
    if (flow.latency > 0) {
      flow.latency -= seconds;
      if (flow.latency < kNothing) flow.latency = 0;
      continue;
    }
    flow.left = rates[f] == kNever ? 0 : flow.left - seconds * rates[f];
  }
  std::erase_if(active_, [](const Flow& f) { return f.latency <= 0 && f.left <= kNothing; });
}

void StepSimulation::wait(std::size_t transfer) {
  while (active(transfer)) {
    const std::vector<double> now = rates(/*computing=*/false);
    const double seconds = next_change(now);
    const double left = processor_.share * (1 - processor_taken(now));
    credit_ = std::min(processor_.share * processor_.period_s, credit_ + seconds * left);
    pass(seconds, now);
    waited_ += seconds;
  }
}

void StepSimulation::compute(double seconds) {
  computed_ += seconds / processor_.share;
  while (seconds > 0) {
    const std::vector<double> now = rates(/*computing=*/true);
    const double taken = processor_taken(now), own = processor_.share * (1 - taken);
    const double speed = credit_ > kNothing ? 1 - processor_.share * taken : own;
    const double until_spent = speed > own ? credit_ / (speed - own) : kNever;
    const double end = seconds / speed;
    const double next = std::min({end, next_change(now), until_spent});
    pass(next, now);
    credit_ = std::max(0.0, credit_ - next * (speed - own));
    seconds = end <= next ? 0 : seconds - next * speed;
  }
}

}  // namespace convoy::plan
