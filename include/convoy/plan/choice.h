// This is what to use: the mini-batch, how sure that is, and what to measure to be surer.
//
// Equations are numbered as in Perrone et al.; see law.h for threads and errors, estimate.h for
// intervals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/plan/convergence.h"
#include "convoy/plan/machine_fit.h"
#include "convoy/plan/update_fit.h"

namespace convoy::plan {

struct BatchChoice {
  std::int64_t workers = 1;
  // M_opt: equation 9, or best_batch() for a machine with a table. Infinite, or with an interval
  // that ends there, as far as N_inf may be at or below 0, and where no time rises with the
  // samples. Where all times rise, its interval begins at a sample per worker if M_T decides.
  Estimate optimum;
  // This is the batch to use: best_batch() where the law is trusted, or else the largest measured
  // one where runs reached the target.
  std::int64_t batch = 0;
  Estimate seconds;          // time to the target with `batch`, equation 1; where the law is not
                             // trusted, with the mean of the updates measured there
  double learning_rate = 0;  // learning_rate_for(batch)
  // Says how sharp the optimum is: the least and the largest multiple of P with at most 1.05 times
  // the least time; no more samples than were timed where no time rises with them. `batch` twice
  // where the law is not trusted.
  std::int64_t low_batch = 0;
  std::int64_t high_batch = 0;
  // Strong and weak scaling instead, as scaling() has them; nothing where the law is not trusted.
  std::optional<BatchTime> strong;
  std::optional<BatchTime> weak;
  std::vector<std::string>
      warnings;  // those of the fit, and where `batch` leaves what was measured
};

// For P workers and batches up to `largest` samples (of the data set, or of what memory holds).
// UsageError for P > largest, and where the law is not trusted and nothing was measured from P
// to largest.
BatchChoice choose_batch(const UpdateFit& updates, const MeasuredMachine& machine,
                         std::int64_t workers, std::int64_t largest);

// Gives the updates to the target that a plan counts on with a batch: those of the law where it is
// trusted; where not, the mean of those measured with this batch, or what is between those of the
// two measured beside it (batch and updates both as logarithms), and nothing beyond them.
std::optional<double> predicted_updates(const UpdateFit& updates, double batch);

// Gives the time to the target that a plan counts on with a batch, and its interval from the draws
// of all fits, and rate_doubt(); nothing where predicted_updates() has nothing. UsageError for P >
// M, and where the machine does not say how long such an update takes.
std::optional<Estimate> predicted_seconds(const UpdateFit& updates, const MeasuredMachine& machine,
                                          std::int64_t batch, std::int64_t workers);

// Gives the machine of one draw of its fits; values that were given are the same in all. Draws
// repeat where there are fewer.
Machine machine_of_draw(const MeasuredMachine& measured, std::size_t draw);

// This is a measurement that could be made next.
struct Candidate {
  enum class Kind {
    updates,       // a run to the target with a batch of `size`, at learning_rate_for(size)
    time,          // the time of an update of `size` samples on one worker
    communication  // the time of communication between `size` workers
  };
  Kind kind = Kind::updates;
  std::int64_t size = 0;
  double cost_s = 0;  // how long it takes
};

struct Suggestion {
  std::size_t candidate = 0;  // its place in the list
  // This is what the interval of log(M_opt) would be after it over what it is now, <= 1.
  double narrowing = 1;
  double gain_per_s = 0;  // the variance of log(M_opt) that it takes away, per second
};

// Gives the candidates by gain per second, the largest first. Variances are those of linearized
// models around the fits: log(M_opt) is half the logarithm of alpha Delta P / (N_inf gamma), or
// that of M_T P, each weighted with the part of the draws where it is the larger; where N_inf is
// not above 0 its own variance takes the place of the first. `compute` and `communication` say what
// was measured so far, `machine` is that of choose_batch(); the hinge of `compute` stands for a
// table of its times. A run to a target that some runs did not reach counts for the part of them
// that did. `communication` may be null: for one worker, or a network that is given.
std::vector<Suggestion> next_measurements(const UpdateFit& updates, const ComputeFit& compute,
                                          const CommunicationFit* communication,
                                          const MeasuredMachine& machine, std::int64_t workers,
                                          const std::vector<Candidate>& candidates);

}  // namespace convoy::plan
