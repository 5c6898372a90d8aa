// Where the time of a training step goes, operator by operator, against a machine's limits.
// Torch-free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/operators/costs.h"

namespace convoy::cli::operators {

enum class Phase : std::uint8_t { forward, backward, update };
inline constexpr std::size_t kPhases = 3;
const char* name_of(Phase phase);

// This is one call of an operator, with all that it calls itself.
struct TimedCall {
  Phase phase = Phase::forward;
  Call call;
  double seconds = 0;
};

// This is one training step, observed.
struct ObservedStep {
  std::vector<TimedCall> calls;
  double seconds = 0;                    // of all of it
  std::array<double, kPhases> phases{};  // seconds; loss and copies of the batch are forward's
};

// What a machine reaches at most.
struct Limits {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

// Calls of the same kind, or of the same shapes, in a step.
struct OperatorRow {
  Phase phase = Phase::forward;
  std::string kind;
  std::string name;    // of calls of the same shapes: "convolution_backward"; else empty
  std::string shapes;  // likewise
  std::int64_t calls = 0;
  OperatorCost cost;
  double time_s = 0;  // the median over steps
  double least_s = 0, most_s = 0;
  // Of rows of shapes the larger one of what FLOPs and bytes take at the limits, of rows of a kind
  // the sum over its shapes.
  double limit_s = 0;
  double flops_limit_s = 0;   // what the FLOPs take at their limit
  bool memory_bound = false;  // bytes take longer than FLOPs for most of limit_s
};

// What a step takes beyond its FLOPs at their limit, in seconds. All of it adds up to that.
struct Gap {
  double products_below = 0;   // convolutions and matrix products that don't reach their limit
  double products_memory = 0;  // of those that memory bounds: more than their FLOPs take
  double others_memory = 0;    // other operators, at the limit of memory
  double others_below = 0;     // what they take beyond that; below 0 where caches have their data
  double update = 0;           // what is no operator in the update
  double rest = 0;             // what is no operator elsewhere: autograd, hooks, waiting for data
};

struct Table {
  std::vector<OperatorRow> kinds;   // by phase, those that take longest first
  std::vector<OperatorRow> shapes;  // likewise
  // What is in no operator: of each phase, and between them.
  std::array<double, kPhases> outside_s{};
  double between_s = 0;
  double update_limit_s = 0;  // what an update has to move, at the limit
  double step_s = 0;          // the median over steps; all of the above adds up to it
  OperatorCost cost;          // of all operators
  double limit_s = 0;         // the sum of all rows', and of the update's
  Gap gap;
};

// The most FLOPs in a second that the operators of one shape reached in these steps, as medians;
// 0 where none computes any.
double fastest_flops(const std::vector<ObservedStep>& steps);

// `update_bytes`: what an update has to read and write, that no operator of LibTorch does.
// REQUIRES: there is a step, and limits are above 0.
Table make_table(const std::vector<ObservedStep>& steps, std::int64_t update_bytes,
                 const Limits& limits);

}  // namespace convoy::cli::operators
