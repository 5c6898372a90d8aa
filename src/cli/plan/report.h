// The page about a plan: what was measured, what was fitted to it, and what that says.
#pragma once

#include <cstdint>
#include <string>

#include "cli/plan/answers.h"
#include "convoy/plan/points.h"

namespace convoy::cli {

struct PlanReport {
  std::string recipe;  // its name
  plan::PlanPoints points;
  Answers answers;
  std::int64_t samples = 0;  // of training: the largest batch
};

// One HTML file that needs nothing else. Throws Failure where gnuplot, which draws its pictures,
// can't be started.
std::string make_plan_report(const PlanReport& report);

}  // namespace convoy::cli
