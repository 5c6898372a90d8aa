// What `convoy bench operators` has found, for people and for programs. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/operators/limits.h"
#include "cli/bench/operators/table.h"
#include "cli/rows.h"

namespace convoy::cli::operators {

// One turn of limits, steps as they are, and steps that are observed.
struct Repetition {
  MeasuredLimits limits;
  double step_s = 0;  // of steps as they are: the median
};

struct Findings {
  std::string model;
  std::int64_t batch = 0;
  int threads = 0;
  bool channels_last = true;
  int steps = 0;  // of each sort in a repetition
  std::string product, convolution;
  MeasuredLimits trials;  // before the repetitions
  std::vector<Repetition> repetitions;
  std::vector<ObservedStep> observed;  // of all repetitions
  std::int64_t update_bytes = 0;
};

// Adds rows of all kinds; those of shapes are printed with `layers` only, and are rows likewise.
// REQUIRES: there are repetitions and observed steps.
void report(const Findings& findings, bool layers, Rows& rows);

}  // namespace convoy::cli::operators
