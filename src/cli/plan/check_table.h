// What came of the trainings of `convoy plan check`, beside what was predicted.
#pragma once

#include <cstdio>
#include <optional>
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

  // A training that diverged would never have reached the target: there is no mean.
  bool known() const { return runs > 0 && diverged == 0; }
  bool at_least() const { return reached < runs; }
};
MeanOutcome outcome_of(const std::vector<CheckedTraining>& trainings);

struct CheckedRule {
  Checked checked;
  MeanOutcome outcome;
};

// The least mean time of a rule whose trainings have all reached the target; nothing where there is
// none.
std::optional<double> best_seconds(const std::vector<CheckedRule>& rules);

void print_checks(const std::vector<CheckedRule>& rules, const std::vector<LeftOut>& left_out,
                  std::FILE* out);
void add_rows(const std::vector<CheckedRule>& rules, const std::vector<LeftOut>& left_out,
              std::int64_t workers, Rows& rows);

}  // namespace convoy::cli
