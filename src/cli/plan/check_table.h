// What came of the trainings of `convoy plan check`, beside what was predicted.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/check_rules.h"
#include "cli/plan/checks_file.h"
#include "cli/rows.h"

namespace convoy::cli {

// Means over the trainings of one rule.
struct MeanOutcome {
  int runs = 0;
  int reached = 0;
  int diverged = 0;
  double updates = 0;  // to the target; at least, where not all have reached it
  double seconds = 0;  // the same
  double update_s = 0;
  std::optional<double> seconds_se =
      {};  // the standard error of `seconds`; of one training nothing

  // A training that diverged would never have reached the target: there is no mean.
  bool known() const { return runs > 0 && diverged == 0; }
  bool at_least() const { return reached < runs; }
};
MeanOutcome outcome_of(const std::vector<CheckedTraining>& trainings);

struct CheckedRule {
  Checked checked;
  MeanOutcome outcome;
};

// Whether the mean time of a rule's trainings is one that the plan expects.
struct CheckVerdict {
  enum class Kind { as_predicted, shorter, longer };
  Kind kind = Kind::as_predicted;
  // Where the mean of so many trainings is in 95 of 100 cases if the plan is right: what is not
  // sure of the prediction, and what the luck of the trainings adds.
  plan::Interval expected;
};
// Nothing where nothing was predicted, a training diverged, or the mean is a bound within what is
// expected.
std::optional<CheckVerdict> verdict_of(const CheckedRule& rule);

struct CheckedGoal {
  std::string metric;
  double target = 0;
  std::int64_t workers = 1;
};

// Which rules came out as predicted, whether the plan holds, and whether another rule than the
// plan's was sooner by more than chance makes: some lines, of which the first names the goal.
std::string verdict_text(const std::vector<CheckedRule>& rules, const CheckedGoal& goal);

// The least mean time of a rule whose trainings have all reached the target; nothing where there is
// none.
std::optional<double> best_seconds(const std::vector<CheckedRule>& rules);

void print_checks(const std::vector<CheckedRule>& rules, const std::vector<LeftOut>& left_out,
                  std::FILE* out);
void add_rows(const std::vector<CheckedRule>& rules, const std::vector<LeftOut>& left_out,
              const CheckedGoal& goal, Rows& rows);

}  // namespace convoy::cli
