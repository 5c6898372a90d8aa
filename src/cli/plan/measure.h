// How long updates take, and what of it is communication: measured in real trainings.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <vector>

#include "cli/plan/deadline.h"
#include "cli/plan/folder.h"
#include "cli/plan/place.h"
#include "cli/plan/planned.h"
#include "cli/plan/trial.h"

namespace convoy::cli {

struct UpdateTimes {
  double seconds = 0;                // mean, of a whole update
  double exposed_communication = 0;  // mean: what computation did not hide
};

// Means over a training's updates after the first, which are slower: at least ten and half a
// second, or three where they are long. Nothing where these are not there yet. Only updates of
// `batch` samples count, not the rest at the end of an epoch; all where none has so many, or
// `batch` is 0.
std::optional<UpdateTimes> mean_times(const std::vector<TrialMetrics::Update>& updates,
                                      std::int64_t batch);

// Mean seconds by the clock of a training's updates of `batch` samples, without evaluations; of all
// where none has so many, or `batch` is 0. The first are slower, and count only where there are
// few. One behind an evaluation is slower, too, and counts only where there are no others.
double mean_update_s(const std::vector<TrialMetrics::Update>& updates, std::int64_t batch);

// Seconds by the clock of a training until it has made so many updates, or all that it made,
// without evaluations. The first one, in which LibTorch sets itself up, counts as the mean of
// `batch` samples, and so does one behind an evaluation.
double seconds_until(const std::vector<TrialMetrics::Update>& updates, std::int64_t step,
                     std::int64_t batch);

// Trains for so long, in processes of their own. Nothing where the deadline comes first. Throws
// UsageError when the training can't be with this batch, Failure when it fails otherwise,
// PlanStopped when told to stop.
std::optional<UpdateTimes> time_updates(const Planned& planned, PlanFolder& folder,
                                        std::int64_t batch, const Place& place,
                                        const Deadline& deadline);

// Batches with a time that is far off the others, as something else on the machine makes it: those
// to measure once more, so that `repetitions` of each are not. After twice as many, it is taken for
// what it is.
std::vector<std::int64_t> disturbed_times(const plan::PlanPoints& points, int repetitions);

// Measures each of `batches` on one worker until there are so many repetitions among the points, by
// turns, and tells `out` of each; then those again that were disturbed. Takes those out of the list
// that there is no training with (a batch of one, where batches are normalized; one that memory
// does not hold), and says so; UsageError where fewer than two are left, TrialFailure where
// trainings fail with all but two.
void measure_compute(const Planned& planned, PlanFolder& folder, std::vector<std::int64_t>& batches,
                     int repetitions, const Place& place, const Deadline& deadline, std::FILE* out);

// An update that several workers make together.
struct Exchange {
  std::int64_t batch = 0;
  Place place;
};

// Whether fewer than `repetitions` of the times of these updates are within a tenth of their
// median, as something else on the machine makes them, which workers wait for that wait for each
// other. After twice as many they are taken for what they are.
bool is_disturbed(const plan::PlanPoints& points, const Exchange& exchange, int repetitions);

// Times updates of several workers likewise, in each of `exchanges` (ascending for each number of
// workers); times with other batches don't count. Where there is no training with a batch between
// so many, the next larger of `batches` (ascending) takes its place; UsageError where there is
// none. Where trainings fail with the larger of two, it is left out, and the smaller is timed twice
// as often; TrialFailure where they fail with that.
void measure_communication(const Planned& planned, PlanFolder& folder,
                           std::vector<Exchange> exchanges,
                           const std::vector<std::int64_t>& batches, int repetitions,
                           const Deadline& deadline, std::FILE* out);

// Make one more measurement of either, and say whether there was the time.
bool measure_one_time(const Planned& planned, PlanFolder& folder, std::int64_t batch,
                      const Place& place, const Deadline& deadline, std::FILE* out);
bool measure_one_exchange(const Planned& planned, PlanFolder& folder, const Exchange& exchange,
                          const Deadline& deadline, std::FILE* out);

}  // namespace convoy::cli
