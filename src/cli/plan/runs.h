// Trainings to the target, for a plan.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "cli/plan/deadline.h"
#include "cli/plan/folder.h"
#include "cli/plan/place.h"
#include "cli/plan/planned.h"
#include "cli/plan/trial.h"

namespace convoy::cli {

struct WantedRun {
  std::int64_t batch = 0;
  double learning_rate = 0;
  std::uint64_t seed = 1;
};

struct RunLimits {
  double epochs = 0;  // the longest that a run may take
  // Updates between evaluations; 0: Planned::usual_interval(), or fewer where a level is reached
  // soon. A run that was looked at too seldom to say when is made again.
  std::int64_t every = 0;
  Deadline deadline;  // of all of them

  // The most updates that a run with this batch may take, of so many samples an epoch.
  std::int64_t longest(std::int64_t samples, std::int64_t batch) const;
};

// Whether a run that is among the points would come further if it were made once more, with at
// most so many updates: it was stopped by a smaller limit, or a budget, or as hopeless beside a
// rate that has diverged since, or has turned out slower.
bool would_go_on(const plan::PointRun& run, const plan::PlanPoints& points, const Goal& goal,
                 std::int64_t longest);

// Whether losses have left where training began: the last three are above ten times the first, and
// above ten.
bool is_leaving(const std::vector<TrialMetrics::Update>& updates);

// Batches of a plan that a training failed with, and what it complained about.
struct FailedBatches {
  std::size_t all = 0;  // that the plan has
  std::map<std::int64_t, std::string> why = {};
};

// Trains what is wanted and not among the points yet, or would go on, one run at each of `places`
// at a time, adds each to the points, and tells `out` of it. Of a batch and seed the rates come in
// the order of their distance from first_rate(). A run ends at the hardest level, at the limit,
// when it diverges, when it is as late as rates.h calls hopeless, or at the deadline, after which
// no other begins. One that is overdue while other rates of its batch wait is put off until these
// are known: then it either is hopeless with the updates that it made, or is made again. What is
// known of a run is kept where it comes less far than before. Returns how many were added.
//
// A batch with which a training fails otherwise is added to `failed`, and no more of its runs
// begin; `out` is told. Throws TrialFailure where fewer than two of all batches are left then, or
// where `failed` is null; PlanStopped when told to stop: runs that are not finished are not among
// the points then.
int measure_runs(const Planned& planned, PlanFolder& folder, const std::vector<WantedRun>& wanted,
                 const RunLimits& limits, const std::vector<Place>& places, std::FILE* out,
                 FailedBatches* failed = nullptr);

}  // namespace convoy::cli
