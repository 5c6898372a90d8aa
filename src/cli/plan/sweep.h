// What a plan measures, in which order, and for how long.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include "cli/plan/answers.h"
#include "cli/plan/folder.h"
#include "cli/plan/planned.h"
#include "cli/plan/runs.h"

namespace convoy::cli {

struct Sweep {
  std::vector<std::int64_t> batches;
  std::vector<double> rates;
  int seeds = 3;
  std::vector<std::int64_t> workers;
  std::vector<std::int64_t> timed;       // batches of one worker whose updates are timed
  int repetitions = 3;                   // of each time
  std::optional<plan::Machine> machine;  // given: nothing is timed
  RunLimits limits;                      // its deadline is the budget's
  std::vector<int> cores;
};

// Without a deadline: all of it. With one: every time, one run of each batch and rate (more, up to
// `seeds`, where these say nothing yet), and then what narrows the interval of M_opt for the most
// workers at the hardest level most, per second. What is among the points already is not measured
// again.
void measure(const Planned& planned, const Sweep& sweep, PlanFolder& folder, std::FILE* out);

// The machine that the answers are for.
PlannedMachine machine_of(const Sweep& sweep, const plan::PlanPoints& points);

}  // namespace convoy::cli
