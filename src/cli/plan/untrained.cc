#include "cli/plan/untrained.h"

#include <string>

#include "base/toml_text.h"
#include "cli/plan/numbers.h"
#include "cli/plan/trial.h"
#include "convoy/base/error.h"

namespace convoy::cli {

void check_untrained(const Planned& planned, PlanFolder& folder, std::int64_t batch,
                     const Place& place, const Deadline& deadline, std::FILE* out) {
  if (is_late(deadline)) return;
  const Goal& goal = planned.goal;
  Trial trial(planned.untrained(batch), folder.new_run(), place, goal.of_task);
  while (trial.poll()) {
    if (is_late(deadline)) return;
    wait_a_little();
  }
  if (trial.diverged()) return;  // runs with other rates or batches may not
  if (!trial.good()) {
    const std::string text =
        "training with batch " + std::to_string(batch) + " failed: " + trial.complaint();
    if (trial.refused()) throw UsageError(text);
    throw Failure(text);
  }
  const Curve& curve = trial.metrics().curve();
  if (curve.empty()) return;
  const double value = curve.front().second;
  std::fprintf(out, "%s before training: %s\n", goal.metric.c_str(), short_text(value).c_str());
  std::fflush(out);
  std::string met;
  for (const double level : goal.levels) {
    if (goal.reached(value, level)) met += (met.empty() ? "" : ", ") + shortest(level);
  }
  if (met.empty()) return;
  throw UsageError(goal.metric + " " + met + " is met before training: a network that has learnt " +
                   "nothing has " + short_text(value) + "; choose a harder target");
}

}  // namespace convoy::cli
