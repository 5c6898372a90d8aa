#include "plan/step_simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace convoy::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of a processor that computes as well.
constexpr double kMostTaken = 0.5;
// What is left of a transfer when nothing is.
constexpr double kNothing = 1e-12;

}  // namespace

std::size_t StepSimulation::start(Transfer transfer) {
  Flow flow;
  flow.latency = transfer.latency;
  flow.transfer = std::move(transfer);
  flows_.push_back(std::move(flow));
  active_.push_back(flows_.size() - 1);
  return flows_.size() - 1;
}

// The part of it that moves in a second.
std::vector<double> StepSimulation::rates(bool computing) const {
  std::vector<double> rates(active_.size(), 0);
  std::vector<double> out, in;  // flows on each link
  const auto count = [](std::vector<double>& links, const std::vector<double>& loads) {
    links.resize(std::max(links.size(), loads.size()), 0);
    for (std::size_t rank = 0; rank < loads.size(); ++rank) links[rank] += loads[rank] > 0 ? 1 : 0;
  };
  for (const std::size_t i : active_) {
    if (flows_[i].latency > 0) continue;
    count(out, flows_[i].transfer.out);
    count(in, flows_[i].transfer.in);
  }
  const auto slowest = [](double rate, const std::vector<double>& loads,
                          const std::vector<double>& links) {
    for (std::size_t rank = 0; rank < loads.size(); ++rank) {
      if (loads[rank] > 0) rate = std::min(rate, 1 / (loads[rank] * links[rank]));
    }
    return rate;
  };
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Flow& flow = flows_[active_[i]];
    if (flow.latency > 0) continue;
    double rate = slowest(kNever, flow.transfer.out, out);
    rate = slowest(rate, flow.transfer.in, in);
    for (const double seconds : flow.transfer.processor) {
      if (seconds > 0) rate = std::min(rate, 1 / seconds);
    }
    rates[i] = rate;
  }
  const double taken = processor_taken(rates), most = computing ? kMostTaken : 1;
  if (taken > most) {
    for (double& rate : rates) rate *= most / taken;
  }
  return rates;
}

// Of the busiest rank's.
double StepSimulation::processor_taken(const std::vector<double>& rates) const {
  std::vector<double> taken{0};
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const std::vector<double>& processor = flows_[active_[i]].transfer.processor;
    if (rates[i] == 0) continue;
    taken.resize(std::max(taken.size(), processor.size()), 0);
    for (std::size_t rank = 0; rank < processor.size(); ++rank) {
      if (processor[rank] > 0) taken[rank] += rates[i] * processor[rank];
    }
  }
  return *std::max_element(taken.begin(), taken.end());
}

// The time until a transfer begins to move, or ends.
double StepSimulation::next_change(const std::vector<double>& rates) const {
  double next = kNever;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Flow& flow = flows_[active_[i]];
    next = std::min(next, flow.latency > 0 ? flow.latency : flow.left / rates[i]);
  }
  return next;
}

void StepSimulation::pass(double seconds, const std::vector<double>& rates) {
  now_ += seconds;
  if (!active_.empty()) under_way_ += seconds;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Flow& flow = flows_[active_[i]];
    if (flow.latency > 0) {
      flow.latency -= seconds;
      if (flow.latency < kNothing) flow.latency = 0;
      continue;
    }
    flow.left = rates[i] == kNever ? 0 : flow.left - seconds * rates[i];
    if (flow.left > kNothing) continue;
    flow.done = true;
    flow.transfer = {};
  }
  std::erase_if(active_, [this](std::size_t i) { return flows_[i].done; });
}

void StepSimulation::wait(std::size_t transfer) {
  while (!flows_[transfer].done) {
    const std::vector<double> now = rates(/*computing=*/false);
    const double seconds = next_change(now);
    pass(seconds, now);
    waited_ += seconds;
  }
}

void StepSimulation::compute(double seconds) {
  computed_ += seconds;
  while (seconds > 0) {
    const std::vector<double> now = rates(/*computing=*/true);
    const double speed = 1 - processor_taken(now);
    const double end = seconds / speed, change = next_change(now);
    pass(std::min(end, change), now);
    seconds = end <= change ? 0 : seconds - change * speed;
  }
}

}  // namespace convoy::plan
