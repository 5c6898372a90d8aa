// How long updates take, and what of it is communication: measured in real trainings.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include "cli/plan/folder.h"
#include "cli/plan/planned.h"
#include "cli/plan/trial.h"

namespace convoy::cli {

struct UpdateTimes {
  double seconds = 0;                // mean, of a whole update
  double exposed_communication = 0;  // mean: what computation did not hide
};

// Means over a training's updates after the first, which are slower: at least ten and half a
// second, or three where they are long. Nothing where these are not there yet.
std::optional<UpdateTimes> mean_times(const std::vector<TrialMetrics::Update>& updates);

// Trains for so long, in processes of their own: one rank on cores[0], or `ranks` of them. Throws
// Failure when training fails, PlanStopped when told to stop.
UpdateTimes time_updates(const Planned& planned, PlanFolder& folder, std::int64_t batch, int ranks,
                         const std::vector<int>& cores);

// Batches with a time that is far off the others, as something else on the machine makes it: those
// to measure once more, so that `repetitions` of each are not. After twice as many, it is taken for
// what it is.
std::vector<std::int64_t> disturbed_times(const plan::PlanPoints& points, int repetitions);

// Measures each of `batches` on one worker until there are so many repetitions among the points, by
// turns, and tells `out` of each; then those again that were disturbed.
void measure_compute(const Planned& planned, PlanFolder& folder,
                     const std::vector<std::int64_t>& batches, int repetitions,
                     const std::vector<int>& cores, std::FILE* out);

// The same of communication between each number of workers above 1, with so many samples each.
void measure_communication(const Planned& planned, PlanFolder& folder,
                           const std::vector<std::int64_t>& workers, std::int64_t samples_each,
                           int repetitions, const std::vector<int>& cores, std::FILE* out);

// One more measurement of either.
void measure_one_time(const Planned& planned, PlanFolder& folder, std::int64_t batch,
                      const std::vector<int>& cores, std::FILE* out);
void measure_one_exchange(const Planned& planned, PlanFolder& folder, std::int64_t workers,
                          std::int64_t samples_each, const std::vector<int>& cores, std::FILE* out);

}  // namespace convoy::cli
