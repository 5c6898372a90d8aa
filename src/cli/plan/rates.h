// Which learning rates of a batch are worth their time, by what other runs have come to.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/plan/goal.h"
#include "convoy/plan/points.h"

namespace convoy::cli {

// So many times the updates of the best rate, a run tells nothing of which rate is the best one.
inline constexpr double kHopeless = 3;

// Updates until the hardest level, where the run reached it.
std::optional<std::int64_t> to_the_hardest(const plan::PointRun& run, const Goal& goal);

// The updates to the hardest level with the best rate of this batch, at the worst of its seeds: of
// each rate that reached it and never diverged the most updates of any run (but those that a budget
// has stopped), and of these the fewest. Nothing where no rate has, leaving out `other_than`.
std::optional<std::int64_t> updates_of_best(const plan::PlanPoints& points, const Goal& goal,
                                            std::int64_t batch,
                                            std::optional<double> other_than = {});

// Whether more runs at this rate would tell nothing of the best one: a run diverged, or did not
// reach the hardest level in kHopeless times the updates that the best of the other rates has
// needed.
bool is_hopeless(const plan::PlanPoints& points, const Goal& goal, std::int64_t batch,
                 double learning_rate);

// The rate to begin with: the best one of this batch, as above, or else one of the batch that is
// nearest by its logarithm: of a smaller one the best, of a larger one the smallest that reached
// the hardest level. What is too large for the smaller batch runs as long as it may, what is too
// small is only a little late. Nothing where no run has reached it.
std::optional<double> first_rate(const plan::PlanPoints& points, const Goal& goal,
                                 std::int64_t batch);

// The rate beyond an end of those that were tried, as far from it as that is from the next one:
// where this end is the best with every batch with which the level was reached, two at least, the
// best of all rates is not among them. Nothing elsewhere, nor where one rate alone was tried.
struct RateBeyond {
  double end = 0, next = 0;
  bool above = true;
};
std::optional<RateBeyond> rate_beyond(const plan::PlanPoints& points, const Goal& goal);

// The updates to the hardest level with this batch, at most, by the batches beside it with which it
// was reached: no more than with the next smaller one, and no more samples than with the next
// larger one, as equation 2 has it. Nothing where there is none.
std::optional<double> updates_by_neighbors(const plan::PlanPoints& points, const Goal& goal,
                                           std::int64_t batch);

}  // namespace convoy::cli
