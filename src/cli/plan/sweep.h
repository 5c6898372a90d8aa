// What a plan measures, in which order, and for how long.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "cli/plan/answers.h"
#include "cli/plan/folder.h"
#include "cli/plan/planned.h"
#include "cli/plan/runs.h"
#include "cli/plan/workplace.h"

namespace convoy::cli {

struct Sweep {
  std::vector<std::int64_t> batches;
  bool smaller_batches = false;  // are tried, too, where the best one is below all of these
  std::vector<double> rates;
  int seeds = 3;
  std::vector<std::int64_t> workers;
  std::vector<std::int64_t> timed;       // batches of one worker whose updates are timed
  int repetitions = 3;                   // of each time
  std::optional<plan::Machine> machine;  // given: nothing is timed
  std::int64_t memory_samples = 0;       // that a worker's memory holds; 0: as the machine has it
  int jobs = 0;                          // trainings to the target at a time, at most; 0: any
  RunLimits limits;                      // its deadline is the budget's
  Workplace workplace;                   // of updates that are timed; runs are at its places, here
};

// The batches with which updates of the most workers are timed, out of those that workers may be
// given, with M_T samples (`knee`) for each of them at least, as the best batch has (equation 9):
// the one in the middle (the smaller of two); the largest where none has so many. At least a sample
// for each.
std::int64_t batch_of_exchange(const std::vector<std::int64_t>& batches, double knee,
                               std::int64_t workers);
// The smallest and the largest of the same, between which an update is told for any batch: once
// where they are the same. They are for workers that share a host.
std::vector<std::int64_t> ends_of_exchange(const std::vector<std::int64_t>& batches, double knee,
                                           std::int64_t workers);

// The one with which that between fewer is timed: of those with a sample for each, that which gives
// each worker the most nearly `share` samples. Communication that computation hides is no longer
// seen, so that times with other shares would not tell how it goes with the number of workers.
std::int64_t batch_of_share(const std::vector<std::int64_t>& batches, double share,
                            std::int64_t workers);

// Gives the points with what the machine's name says of times that don't say how many of their
// workers were on one host, as those of before: where it names hosts, workers lay on the first
// ones.
plan::PlanPoints with_host_workers(plan::PlanPoints points);

// Whether a time of several workers says how long the whole update took. Those of before don't:
// what workers lose to each other isn't told by them, and they are measured anew.
inline bool is_of_whole_update(const plan::CommunicationSample& time) { return time.update_s > 0; }

// Gives, for each number of workers whose updates were timed with some of `batches` (or a sample
// for each worker, where that is more), these, ascending. With one worker on each host it is the
// batch of the last such time alone: with others a different part of communication is hidden.
std::map<std::int64_t, std::vector<std::int64_t>> batches_of_exchanges(
    const plan::PlanPoints& points, const std::vector<std::int64_t>& batches);

// The points that count for this sweep: times of several workers with other batches, or of which
// batch or update are not known, do not.
plan::PlanPoints points_of(const Sweep& sweep, plan::PlanPoints points);

// The runs of a seed, in an order in which each further one says something new: the largest and the
// smallest batch first, then those between, with the middle one of the rates; then with the others.
std::vector<WantedRun> grid(const std::vector<std::int64_t>& batches,
                            const std::vector<double>& rates, std::uint64_t seed);

// A quarter of the smallest batch that runs have reached the target with, where that is too large
// to be the best of some number of the sweep's workers; nothing where it is not, or nothing tells
// yet.
std::optional<std::int64_t> batch_below(const Sweep& sweep, const plan::PlanPoints& points,
                                        double level, std::int64_t largest);

// What further runs could say, by batch, at the rates of the envelope; not at those that are
// hopeless.
std::vector<plan::Candidate> candidate_runs(const plan::PlanPoints& points, const Goal& goal,
                                            const plan::UpdateFit& updates);

// Without a deadline: all of it. With one: every time once (twice where there are few), and more
// often in the first half of what there is until then; one run of each batch and rate (more, up to
// `seeds`, where these say nothing yet), and of the next rate where the largest or the smallest is
// the best with every batch; and then what narrows the interval of M_opt for the most
// workers at the hardest level most, per second. What is among the points already is not measured
// again, but times of another machine, and runs that would go on. Returns the batches that were
// left out since a training failed with them. Throws UsageError for targets that are met before
// training, and where the deadline leaves no time for runs.
FailedBatches measure(const Planned& planned, const Sweep& sweep, PlanFolder& folder,
                      std::FILE* out);

// Where trainings to the target run: no more of them than there may be at a time.
std::vector<Place> places_of_runs(const Sweep& sweep);

// The machine that the answers are for.
PlannedMachine machine_of(const Sweep& sweep, const plan::PlanPoints& points);

}  // namespace convoy::cli
