#include "convoy/plan/hardware.h"

#include <algorithm>
#include <cmath>
#include <tuple>

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

Design best_design(const UpdateLaw& law, const Machine& machine, const Prices& prices,
                   double budget, std::int64_t most_workers) {
  check(prices);
  check_positive("the budget", budget);
  check_at_least("the largest number of workers", most_workers, 1);
  const double given = delta_of(machine);
  const double gamma = machine.seconds_per_sample / machine.processor_share;
  const double slowest = given * 1e6, fastest = given * 1e-6;
  const double alone = compute_cost(prices, 1, gamma);
  if (alone > budget) {
    throw UsageError("a budget of " + shortest(budget) +
                     " does not pay for one worker, which costs " + shortest(alone));
  }
  Design best{machine, 1, optimal_batch(law, machine, 1), optimal_seconds(law, machine, 1), alone};
  for (std::int64_t p = 2; p <= most_workers; ++p) {
    const double left = budget - compute_cost(prices, static_cast<double>(p), gamma);
    if (left < 0 || bandwidth_cost(prices, slowest) > left) break;  // more workers cost more
    double low = std::log(fastest), high = std::log(slowest);
    if (bandwidth_cost(prices, fastest) <= left) high = low;
    for (int i = 0; i < 100 && high - low > 1e-14; ++i) {
      const double middle = (low + high) / 2;
      (bandwidth_cost(prices, std::exp(middle)) <= left ? high : low) = middle;
    }
    const Machine built = with_delta(machine, std::exp(high));
    const double seconds = optimal_seconds(law, built, p);
    if (seconds >= best.seconds) continue;
    best = {built, p, optimal_batch(law, built, p), seconds, cost(prices, built, p)};
  }
  return best;
}

std::vector<WhatIf> what_if(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                            double factor) {
  check_positive("the factor", factor);
  const double before = optimal_seconds(law, machine, workers);
  std::vector<WhatIf> rows;
  const auto add = [&](const char* change, const Machine& changed, std::int64_t p) {
    const double seconds = optimal_seconds(law, changed, p);
    rows.push_back({change, changed, p, optimal_batch(law, changed, p), seconds, before / seconds});
  };
  Machine changed = machine;
  changed.seconds_per_sample /= factor;
  changed.overhead_s /= factor;
  add("processor", changed, workers);
  changed = machine;
  // The time of a small batch shrinks, that of a large one stays.
  changed.knee_samples /= factor;
  if (machine.knee_samples > 1) add("knee", changed, workers);
  changed = machine;
  changed.overhead_s /= factor;
  if (machine.overhead_s > 0) add("overhead", changed, workers);
  const double delta = delta_seconds(machine.communication);
  if (delta > 0 && workers > 1) add("bandwidth", with_delta(machine, delta / factor), workers);
  changed = machine;
  if (machine.communication.latency_s > 0 && workers > 1 &&
      machine.communication.kind != CommunicationKind::table) {
    changed.communication.latency_s /= factor;
    add("latency", changed, workers);
  }
  const double p = static_cast<double>(workers) * factor;
  const auto& table = machine.communication.table;
  const bool in_table = !table.empty() && p >= static_cast<double>(table.front().workers) &&
                        p <= static_cast<double>(table.back().workers);
  const bool measured = p == 1 || in_table ||
                        (table.empty() && machine.communication.kind != CommunicationKind::unknown);
  if (p >= 1 && p <= 0x1p31 && p == std::floor(p) && measured) {
    add("workers", machine, static_cast<std::int64_t>(p));
  }
  std::sort(rows.begin(), rows.end(), [](const WhatIf& a, const WhatIf& b) {
    return std::tie(a.seconds, a.change) < std::tie(b.seconds, b.change);
  });
  return rows;
}

}  // namespace convoy::plan
