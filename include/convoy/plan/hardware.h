// This says which machine to buy, or which part of it to improve, for a given training.
//
// Equations are numbered as in Perrone et al.; see law.h for threads and errors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convoy/plan/convergence.h"

namespace convoy::plan {

// This is what parts cost, in any one unit. compute: P workers whose processors take gamma seconds
// per sample, growing with P; bandwidth: a network on which delta takes so many seconds, falling as
// delta grows. Called with values > 0; UsageError where one returns what is no cost (NaN or
// negative).
struct Prices {
  std::function<double(double workers, double seconds_per_sample)> compute;
  std::function<double(double delta_s)> bandwidth;
};

// Equation 11: C_compute(P, gamma) + C_bandwidth(delta).
double cost(const Prices& prices, const Machine& machine, std::int64_t workers);

// These are the sides of equation 12: seconds of T_C(M_opt(P), P) that one more unit of cost saves
// when it is spent on more workers, on faster processors, or on bandwidth. At the best design they
// are equal. Below 0: it costs time. Derivatives, so P counts as a real number here. For a machine
// with delta > 0, P > 1. UsageError for prices that don't grow with P, or don't fall with delta.
struct Balance {
  double saved_by_workers = 0;
  double saved_by_bandwidth = 0;
  // The overhead shrinks with gamma. Nothing where prices don't fall with gamma.
  std::optional<double> saved_by_processors = {};
};
Balance balance(const UpdateLaw& law, const Machine& machine, double workers, const Prices& prices);

// These are the processors that there are to buy, by how many times as fast they are as that of the
// machine given; gamma and the overhead shrink alike. 0 < slowest <= 1 <= fastest.
struct ProcessorRange {
  double slowest = 1;
  double fastest = 1;
};

// This is the design that equation 12 describes, for whole numbers of workers: for each P and
// processor the network is the best that the rest of the budget pays for, and those with the least
// time win. One worker has no network, and pays for none.
struct Design {
  Machine machine;  // with its delta_s, gamma and overhead
  std::int64_t workers = 1;
  double batch = 0;      // equation 9
  double seconds = 0;    // equation 10
  double cost = 0;       // equation 11: at most the budget
  double processor = 1;  // how many times as fast as that of the machine given
};
// 1 <= P <= most_workers; delta is looked for between delta_s / 1e6 and delta_s * 1e6 of the
// machine given, and is the machine's own for P = 1. Memory is not looked at. UsageError when the
// budget does not even pay for one worker.
Design best_design(const UpdateLaw& law, const Machine& machine, const Prices& prices,
                   double budget, std::int64_t most_workers, const ProcessorRange& processors = {});

// This is the machine with one thing `factor` times as good.
struct MachineChange {
  std::string change;  // "processor", "knee", "overhead", "bandwidth", "latency", "workers"
  Machine machine;     // after the change
  std::int64_t workers = 1;
};
// For factor > 0. Only what the machine has: no bandwidth or latency for a table, or where they are
// 0; no knee and no overhead where times are a table; workers only where the number stays whole,
// and communication between so many is known.
std::vector<MachineChange> machine_changes(const Machine& machine, std::int64_t workers,
                                           double factor);

// This is the best batch and its time: equations 9 and 10, or best_batch() up to `largest` samples
// for a machine with a table or a limit of memory, which equations don't take.
struct Optimum {
  double batch = 0;
  double seconds = 0;
};
inline constexpr std::int64_t kAnyBatch = std::int64_t{1} << 53;
Optimum optimum(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                std::int64_t largest = kAnyBatch);

// This is what the time to the target would be if one thing were `factor` times as good.
struct WhatIf {
  std::string change;
  Machine machine;  // after the change
  std::int64_t workers = 1;
  double batch = 0;    // that of optimum(), after the change
  double seconds = 0;  // likewise
  double speedup = 1;  // the time before over the time after
};
// Gives the optimum after each of machine_changes(), the best first. Where that is best_batch(),
// numbers of workers above `largest` are left out.
std::vector<WhatIf> what_if(const UpdateLaw& law, const Machine& machine, std::int64_t workers,
                            double factor, std::int64_t largest = kAnyBatch);

}  // namespace convoy::plan
