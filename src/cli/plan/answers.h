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

// The number of workers that comes to the level soonest, the fewest of equals.
const plan::BatchChoice& soonest(const LevelAnswer& level);

struct Answers {
  std::string metric;
  PlannedMachine machine;
  std::vector<LevelAnswer> levels;  // those that there is an answer for
  // Why there is none for the others, and numbers of workers.
  struct Without {
    double level = 0;
    std::int64_t workers = 0;  // 0: any
    std::string why;           // one line, with both
  };
  std::vector<Without> without;
};

// For each level of the points and each number of workers, with batches up to `largest`.
Answers answer(const plan::PlanPoints& points, const PlannedMachine& machine,
               const std::vector<std::int64_t>& workers, std::int64_t largest);

// Adds a line to what is to be borne in mind with answers for `workers` and more.
void add_warning(Answers& answers, std::int64_t workers, const std::string& warning);

// "1.2 ms for 1 sample to 8 ms for 64", and "10 ms between 2 workers to 14 ms between 8".
std::string table_text(const std::vector<plan::ComputePoint>& table);
std::string table_text(const plan::Communication& communication);

// "4.5% (2.1% to 6.9%) with 2 workers": by how much longer workers compute that share hosts, where
// anything says it. `text` gives a part of it in percent, with its interval.
std::string contention_text(const PlannedMachine& machine,
                            std::string (*text)(const plan::Estimate&));

// The answer to the hardest level in one line: "soonest to loss 0.3: 1 worker, batch 16, rate
// 0.0707: 275 ms (248 ms to 304 ms); 4 workers take 364 ms".
std::string answer_text(const Answers& answers);

// Print the answers as tables for people, and give them as rows, of which the first is the answer.
// `command` trains so.
void print(const Answers& answers, std::FILE* out);
void add_rows(const Answers& answers, const std::string& command, Rows& rows);

}  // namespace convoy::cli
