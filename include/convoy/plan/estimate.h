// Estimates with intervals, as all fits of measurements give them.
//
// All fits are robust least squares of logarithms: the scatter of what is measured is a fraction of
// it, and a measurement that is far off counts as one that is 1.345 standard deviations off
// (Huber's weights). Scale and location are estimated together (Huber's second proposal). From 20
// measurements on, scatter goes with a power of the batch, which is estimated as well (and drawn
// towards 0); each then counts by the scatter at its batch. With fewer, scatter is the same
// fraction everywhere, and nearly normal. Estimates are of means, as the paper's are: exp(log
// center + scatter^2 / 2), scatter of more than 1 counting as 1.
//
// Intervals are bootstrap-t: residuals are drawn anew, the fit is repeated, and what the fits miss
// the estimate by, each in units of its own standard error, is taken off the estimate. Every
// round gives a draw of all parameters together; an interval goes from the 2.5th to the 97.5th
// percentile of the draws, and whatever is computed from parameters has its interval from the same
// draws.
#pragma once

#include <cstdint>
#include <vector>

namespace convoy::plan {

struct Interval {
  double low = 0;
  double high = 0;
  bool contains(double value) const { return low <= value && value <= high; }
};

// Gives the 95% interval of draws: percentiles 2.5 and 97.5. Infinite draws count, NaN are refused.
// UsageError for fewer than 39 draws, which have no such percentiles.
Interval interval_of(std::vector<double> draws);

struct Estimate {
  double value = 0;
  Interval interval;
};

struct FitOptions {
  int rounds = 1999;  // of the bootstrap; from 39, best one less than a multiple of 40
  std::uint64_t seed = 0;
};

}  // namespace convoy::plan
