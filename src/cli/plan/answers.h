// From what a plan has measured to what it says.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cli/rows.h"
#include "convoy/plan/choice.h"
#include "convoy/plan/points.h"

namespace convoy::cli {

// The machine that a plan is for: given, or fitted to what was measured.
struct PlannedMachine {
  plan::MeasuredMachine machine;
  std::optional<plan::ComputeFit> compute;              // if it was measured
  std::optional<plan::CommunicationFit> communication;  // if it was measured
};
PlannedMachine fit_machine(const plan::PlanPoints& points);

struct LevelAnswer {
  double level = 0;
  plan::UpdateFit updates;
  std::vector<plan::BatchChoice> choices;  // one for each number of workers
};

struct Answers {
  std::string metric;
  PlannedMachine machine;
  std::vector<LevelAnswer> levels;  // those that there is an answer for
  // Why there is none for the others, a line each.
  std::vector<std::string> without;
};

// For each level of the points and each number of workers, with batches up to `largest`. Throws
// UsageError where there is no answer for any level, saying why.
Answers answer(const plan::PlanPoints& points, const PlannedMachine& machine,
               const std::vector<std::int64_t>& workers, std::int64_t largest);

// As tables for people, and as rows.
void print(const Answers& answers, std::FILE* out);
void add_rows(const Answers& answers, Rows& rows);

}  // namespace convoy::cli
