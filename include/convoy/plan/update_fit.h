// This leads from training runs to the law of updates: N_inf and alpha with intervals. See law.h
// for threads and errors, estimate.h for what is fitted and what intervals are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/plan/estimate.h"
#include "convoy/plan/law.h"

namespace convoy::plan {

// This is one training run, towards one target.
struct UpdateRun {
  std::int64_t batch = 0;    // M
  double learning_rate = 0;  // > 0
  std::uint64_t seed = 0;
  // Updates until the target was first reached; or, without having reached it, until the run was
  // stopped. For reasons that don't depend on how it was doing, that is: a limit, a budget, or that
  // another rate had reached the target long before.
  std::int64_t updates = 0;  // >= 1
  bool reached = true;
  bool diverged = false;  // it would never have reached the target
};

// This is one mini-batch at the learning rate that is best for it.
struct EnvelopePoint {
  std::int64_t batch = 0;
  double learning_rate = 0;
  int runs = 0;        // that the law is fitted to, see UpdateFit
  int reached = 0;     // of these
  double updates = 0;  // their mean; where none has reached the target, infinite
  double fitted = 0;   // equation 2
  double scatter = 0;  // standard deviation of log(updates) between runs of this batch
  double residual =
      0;  // log(updates / fitted) in units of its standard error; 0 where none has reached it
  // Other rates that were tried with it, and how many times as many updates they take; infinite
  // where they diverge, or never reach the target.
  struct OtherRate {
    double learning_rate = 0;
    double times = 1;  // >= 1
  };
  std::vector<OtherRate> others = {};
};

// Equation 2 through the envelope.
//
// Rates: for each M, the learning rate with the fewest mean updates; a rate with a run that
// diverged is not used. The fewest of several means is low by chance, so that the law is fitted to
// runs that had no part in the choice: of each seed to those at the rate that is best by the other
// seeds, which is the same rate wherever one is clearly the best. Where the best rate has runs of
// one seed alone, it is fitted to these; a warning says so where others are nearly as good.
//
// Censored runs (stopped before the target) count with what is known of them: the score of such a
// run is the mean score of normal scatter beyond the point where it was stopped. Rounds draw what
// they would have taken from the normal distribution beyond it, and stop it (and the runs of its
// M and rate that took fewer updates) there again.
struct UpdateFit {
  UpdateLaw law;  // alpha >= 0
  Estimate updates_at_infinity;
  Estimate noise_sensitivity;
  // Standard deviation of log(updates) between runs of one M and rate: for a typical M, and the
  // power of M that it goes with (see estimate.h).
  double scatter = 0;
  double scatter_trend = 0;
  std::vector<EnvelopePoint> envelope;  // by batch, those without any usable run left out
  // Says how likely so large a difference between the means of the M and the law would be by
  // chance, if the law were right; 1 where nothing tests it (a warning says so), which takes three
  // M whose runs all reached the target, and several runs at one of them.
  double lack_of_fit = 1;
  // Says whether the law may be used beyond what was measured: N_inf is above 0 and so is its
  // interval, and lack_of_fit is no sign against it. Warnings say why not.
  bool trusted = false;
  std::vector<std::string> warnings;  // one line each
  std::vector<UpdateLaw> draws;       // alpha >= 0; N_inf may be below 0
};

// UsageError for bad values, for runs of fewer than two M that reached the target (saying how far
// the one that came furthest was run), and for fewer than 3 runs that did at the rates chosen.
UpdateFit fit_updates(const std::vector<UpdateRun>& runs, const FitOptions& options = {});

// Gives the learning rate that goes with a batch: the envelope's where runs reached the target,
// interpolated between the two M beside it, rate and batch both as logarithms, to four digits. That
// of the nearest M outside of these. UsageError for an envelope without such an M.
double learning_rate_for(const std::vector<EnvelopePoint>& envelope, double batch);

// Says how unsure updates are since that rate lies between two that were tried: the standard
// deviation of their logarithm. What the rate of either M costs at the other one says how much a
// rate matters there, and one that is off by half of their distance costs a quarter of that. 0
// where both M have the same rate, and for an M of the envelope.
double rate_doubt(const std::vector<EnvelopePoint>& envelope, double batch);

}  // namespace convoy::plan
