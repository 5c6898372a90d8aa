#include "convoy/plan/hardware.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/checks.h"
#include "plan/communication.h"

namespace convoy::plan {
namespace {

double priced(double cost, const char* what) {
  if (!(cost >= 0)) {
    refuse(std::string("the price of ") + what, shortest(cost), "0 or more for whatever is asked");
  }
  return cost;
}

double compute_cost(const Prices& prices, double workers, double gamma) {
  return priced(prices.compute(workers, gamma), "computation");
}

double bandwidth_cost(const Prices& prices, double delta) {
  return priced(prices.bandwidth(delta), "bandwidth");
}

void check(const Prices& prices) {
  if (!prices.compute || !prices.bandwidth) {
    throw UsageError("prices need a function for computation and one for bandwidth");
  }
}

Machine with_delta(Machine machine, double delta) {
  machine.communication.delta_s = delta;
  machine.communication.gradient_bytes = machine.communication.bandwidth_bytes_per_s = 0;
  return machine;
}

double delta_of(const Machine& machine) {
  validate(machine);
  const double delta = delta_seconds(machine.communication);
  if (!(delta > 0)) {
    throw UsageError("the machine's communication is '" +
                     std::string(name(machine.communication.kind)) +
                     "' without a delta; bandwidth is bought for one of constant, server, ring and "
                     "tree with delta_s or gradient_bytes and bandwidth_bytes_per_s");
  }
  return delta;
}

// Equation 10 for a real P > 1.
double seconds_at(const UpdateLaw& law, const Machine& machine, double p) {
  Machine two = machine;  // whose communication is Delta(P), as one number
  two.communication = {};
  two.communication.kind = CommunicationKind::constant;
  two.communication.delta_s = communication_at(machine.communication, p);
  two.contention = {{2, contention_at(machine.contention, p)}};
  // T_C(P; alpha, gamma, M_T) = T_C(2; alpha 2/P, gamma, M_T): P stands by alpha alone in it.
  return optimal_seconds({law.updates_at_infinity, law.noise_sensitivity * 2 / p}, two, 2);
}

}  // namespace

double cost(const Prices& prices, const Machine& machine, std::int64_t workers) {
  check(prices);
  check_workers(workers);
  return compute_cost(prices, static_cast<double>(workers),
                      machine.seconds_per_sample / machine.processor_share) +
         bandwidth_cost(prices, delta_of(machine));
}

Balance balance(const UpdateLaw& law, const Machine& machine, double workers,
                const Prices& prices) {
  check(prices);
  const double delta = delta_of(machine);
  if (!(workers > 1) || !std::isfinite(workers)) {
    refuse("the number of workers", shortest(workers), "above 1");
  }
  const double gamma = machine.seconds_per_sample / machine.processor_share;
  // Central differences: their error is some 1e-8 of the value.
  const double step = 1e-5;
  const double more = workers * (1 + step), fewer = workers * (1 - step);
  const double slow = delta * (1 + step), fast = delta * (1 - step);
  const double workers_cost =
      compute_cost(prices, more, gamma) - compute_cost(prices, fewer, gamma);
  const double network_cost = bandwidth_cost(prices, fast) - bandwidth_cost(prices, slow);
  if (!(workers_cost > 0) || !(network_cost > 0)) {
    throw UsageError(
        "these prices have no balance here; they must grow with the workers and fall with "
        "delta");
  }
  Balance result;
  result.saved_by_workers =
      (seconds_at(law, machine, fewer) - seconds_at(law, machine, more)) / workers_cost;
  result.saved_by_bandwidth = (seconds_at(law, with_delta(machine, slow), workers) -
                               seconds_at(law, with_delta(machine, fast), workers)) /
                              network_cost;
  const double processors_cost = compute_cost(prices, workers, gamma * (1 - step)) -
                                 compute_cost(prices, workers, gamma * (1 + step));
  if (processors_cost > 0) {
    const auto at = [&](double times) {
      Machine other = machine;
      other.seconds_per_sample *= times;
      other.overhead_s *= times;
      return seconds_at(law, other, workers);
    };
    result.saved_by_processors = (at(1 + step) - at(1 - step)) / processors_cost;
  }
  return result;
}

namespace {

Machine with_processor(Machine machine, double times) {
  machine.seconds_per_sample /= times;
  machine.overhead_s /= times;
  for (ComputePoint& point : machine.table) point.seconds /= times;
  return machine;
}

// What a budget can be spent on.
class Designs {
 public:
  Designs(const UpdateLaw& law, const Machine& machine, const Prices& prices, double budget,
          const ProcessorRange& processors)
      : law_(law),
        machine_(machine),
        prices_(prices),
        budget_(budget),
        delta_(delta_of(machine)),
        low_(std::log(processors.slowest)),
        high_(std::log(processors.fastest)) {}

  // The soonest with so many workers; nothing where the budget does not pay for them.
  std::optional<Design> with(std::int64_t workers) const {
    std::optional<Design> best;
    const auto consider = [&](double log) {
      const std::optional<Design> one = with(workers, std::exp(log));
      if (one && (!best || one->seconds < best->seconds)) best = one;
      return one ? one->seconds : std::numeric_limits<double>::infinity();
    };
    consider(0);
    if (low_ == high_) return best;
    constexpr int kSteps = 12;
    const double step = (high_ - low_) / kSteps;
    double at = 0, least = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= kSteps; ++i) {
      const double log = i == kSteps ? high_ : low_ + i * step;
      const double seconds = consider(log);
      if (seconds < least) least = seconds, at = log;
    }
    double low = std::max(at - step, low_), high = std::min(at + step, high_);
    constexpr int kRefined = 24;  // a third of the interval goes each time
    for (int i = 0; i < kRefined && best; ++i) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      if (consider(a) <= consider(b)) {  // what can't be paid for are the faster ones
        high = b;
      } else {
        low = a;
      }
    }
    return best;
  }

  double cheapest_worker() const { return compute_cost(prices_, 1, gamma(std::exp(low_))); }

 private:
  double gamma(double times) const {
    return machine_.seconds_per_sample / machine_.processor_share / times;
  }

  std::optional<Design> with(std::int64_t workers, double times) const {
    const double spent = compute_cost(prices_, static_cast<double>(workers), gamma(times));
    const double left = budget_ - spent;
    if (!(left >= 0)) return std::nullopt;
    const Machine machine = with_processor(machine_, times);
    if (workers == 1) {
      return Design{
          machine, 1,    optimal_batch(law_, machine, 1), optimal_seconds(law_, machine, 1),
          spent,   times};
    }
    const double slowest = delta_ * kFar, fastest = delta_ / kFar;
    if (bandwidth_cost(prices_, slowest) > left) return std::nullopt;
    double low = std::log(fastest), high = std::log(slowest);
    if (bandwidth_cost(prices_, fastest) <= left) high = low;
    for (int i = 0; i < 100 && high - low > 1e-14; ++i) {
      const double middle = (low + high) / 2;
      (bandwidth_cost(prices_, std::exp(middle)) <= left ? high : low) = middle;
    }
    const Machine built = with_delta(machine, std::exp(high));
    return Design{built,
                  workers,
                  optimal_batch(law_, built, workers),
                  optimal_seconds(law_, built, workers),
                  cost(prices_, built, workers),
                  times};
  }

  static constexpr double kFar = 1e6;
  const UpdateLaw& law_;
  const Machine& machine_;
  const Prices& prices_;
  double budget_, delta_;
  double low_, high_;  // of processors, as logarithms
};

}  // namespace

Design best_design(const UpdateLaw& law, const Machine& machine, const Prices& prices,
                   double budget, std::int64_t most_workers, const ProcessorRange& processors) {
  check(prices);
  check_positive("the budget", budget);
  check_at_least("the largest number of workers", most_workers, 1);
  check_positive("the slowest processor", processors.slowest);
  check_positive("the fastest processor", processors.fastest);
  if (processors.slowest > 1)
    refuse("the slowest processor", shortest(processors.slowest), "at most 1");
  if (processors.fastest < 1)
    refuse("the fastest processor", shortest(processors.fastest), "at least 1");
  const Designs designs(law, machine, prices, budget, processors);
  std::optional<Design> best = designs.with(1);
  if (!best) {
    throw UsageError("a budget of " + shortest(budget) +
                     " does not pay for one worker, which costs " +
                     shortest(designs.cheapest_worker()));
  }
  for (std::int64_t p = 2; p <= most_workers; ++p) {
    const std::optional<Design> one = designs.with(p);
    if (!one) break;  // more workers cost more
    if (one->seconds < best->seconds) best = one;
  }
  return *best;
}

std::vector<MachineChange> machine_changes(const Machine& machine, std::int64_t workers,
                                           double factor) {
  check_positive("the factor", factor);
  check_workers(workers);
  std::vector<MachineChange> changes{{"processor", with_processor(machine, factor), workers}};
  Machine changed = machine;
  // The time of a small batch shrinks, that of a large one stays.
  changed.knee_samples /= factor;
  const bool by_equation = machine.table.empty();
  if (by_equation && machine.knee_samples > 1) changes.push_back({"knee", changed, workers});
  changed = machine;
  changed.overhead_s /= factor;
  if (by_equation && machine.overhead_s > 0) changes.push_back({"overhead", changed, workers});
  const double delta = delta_seconds(machine.communication);
  if (delta > 0 && workers > 1)
    changes.push_back({"bandwidth", with_delta(machine, delta / factor), workers});
  changed = machine;
  if (machine.communication.latency_s > 0 && workers > 1 &&
      machine.communication.kind != CommunicationKind::table) {
    changed.communication.latency_s /= factor;
    changes.push_back({"latency", changed, workers});
  }
  const double p = static_cast<double>(workers) * factor;
  const auto& table = machine.communication.table;
  const bool in_table = !table.empty() && p >= static_cast<double>(table.front().workers) &&
                        p <= static_cast<double>(table.back().workers);
  const bool measured = p == 1 || in_table ||
                        (table.empty() && machine.communication.kind != CommunicationKind::unknown);
  if (p >= 1 && p <= 0x1p31 && p == std::floor(p) && measured)
    changes.push_back({"workers", machine, static_cast<std::int64_t>(p)});
  return changes;
}

Optimum optimum(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                std::int64_t largest) {
  if (machine.table.empty() && machine.memory_samples == 0)
    return {optimal_batch(law, machine, workers), optimal_seconds(law, machine, workers)};
  const BatchTime best = best_batch(law, machine, workers, largest);
  return {static_cast<double>(best.batch), best.seconds};
}

std::vector<WhatIf> what_if(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                            double factor, std::int64_t largest) {
  const double before = optimum(law, machine, workers, largest).seconds;
  std::vector<WhatIf> rows;
  for (MachineChange& change : machine_changes(machine, workers, factor)) {
    const bool by_equations = change.machine.table.empty() && change.machine.memory_samples == 0;
    if (!by_equations && change.workers > largest) continue;
    const auto [batch, seconds] = optimum(law, change.machine, change.workers, largest);
    rows.push_back({std::move(change.change), std::move(change.machine), change.workers, batch,
                    seconds, before / seconds});
  }
  std::sort(rows.begin(), rows.end(), [](const WhatIf& a, const WhatIf& b) {
    return std::tie(a.seconds, a.change) < std::tie(b.seconds, b.change);
  });
  return rows;
}

}  // namespace convoy::plan
