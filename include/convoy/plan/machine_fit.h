// This leads from measured times to a machine: gamma, M_T and delta with intervals. See law.h for
// threads and errors, estimate.h for what is fitted and what intervals are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/plan/estimate.h"
#include "convoy/plan/machine.h"

namespace convoy::plan {

// This is one measurement, independent of the others: the mean over some updates, not each of a row
// of updates that are slow or fast together.
struct TimeSample {
  std::int64_t samples = 0;  // of one worker; M at P = 1
  double seconds = 0;        // per update
};

struct ComputeDraw {
  double seconds_per_sample = 0;
  double knee_samples = 0;
  double overhead_s = 0;
};

// Gamma(M) = gamma max(M, M_T) through times over a sweep of M. Where that does not describe the
// times (lack_of_fit below 0.01) and a fixed time does so better, or the times are a hundred times
// as likely with one (which may be seen without repetitions), t + gamma M instead: then there is an
// overhead_s, and M_T is 1.
struct ComputeFit {
  Estimate seconds_per_sample;  // gamma
  Estimate knee_samples;        // M_T
  Estimate overhead_s;          // t; 0 where M_T is what small batches wait for
  // Says whether the sweep lies on both sides of the knee. Where it has no flat part, M_T is given
  // as the smallest M, and is that at most; where it has no slope, as the largest, and is that at
  // least (and gamma at most what is given). With an overhead: whether it is more than half of the
  // time of the smallest M, and less than half of that of the largest.
  bool flat_seen = false;
  bool slope_seen = false;
  // Says how many of the samples are on each side, each divided by the square of its batch's
  // scatter in units of the typical one; those at the knee count half for each. With an overhead a
  // sample counts for each side with the part that it has of the time.
  double flat_samples = 0, rising_samples = 0;
  // Standard deviation of log(seconds): for a typical M, and the power of M that it goes with.
  double scatter = 0;
  double scatter_trend = 0;
  std::vector<double>
      residuals;  // of each sample, as given: log(seconds / fit) in units of the scatter
  std::vector<std::size_t> outliers;  // samples with residuals beyond 4: measure them again
  // Says how likely so large a difference between the times' means and the hinge would be by
  // chance, if the hinge were right; 1 where every M was measured once.
  double lack_of_fit = 1;
  // Has the mean times where the model does not describe them (lack_of_fit below 0.01), and misses
  // the mean over some M by more than 5%; measured_machine() takes these means in its place.
  std::vector<ComputePoint> table;
  std::vector<std::string> warnings;  // one line each
  std::vector<ComputeDraw> draws;
};

// UsageError for fewer than 3 samples, or fewer than two different M.
ComputeFit fit_compute(const std::vector<TimeSample>& samples, const FitOptions& options = {});

// Gives the means over each M, robust as above, for Machine::table.
std::vector<ComputePoint> compute_table(const std::vector<TimeSample>& samples);

struct CommunicationSample {
  std::int64_t workers = 0;  // >= 2
  double seconds = 0;        // of communication that computation does not hide, per update
  // This is the batch of all workers together: the larger it is, the more computation hides. 0 says
  // that it is not known.
  std::int64_t batch = 0;
  double update_s = 0;  // of the whole update that it is a part of; 0: not known
  // The most of the workers that are on one host; 0: all of them, as nothing else is known.
  std::int64_t host_workers = 0;
};

// Gives the same with Delta(P) as equation 3 has it, T(M, P) - Gamma(M/P): what an update of P
// workers takes beyond what one worker alone takes for the largest of their shares. That is
// communication, and what else workers cost each other (the slowest one, memory that they share).
// Where the whole update is known, that is; and no less than the seconds that were given, nor than
// a hundredth of the update, which times don't tell from nothing. Gamma is the mean of the times of
// as many samples, or what fit_compute() makes of all times; where these are too few, nothing
// changes.
std::vector<CommunicationSample> beyond_compute(std::vector<CommunicationSample> samples,
                                                const std::vector<TimeSample>& times);

// This is c(P), what P workers on shared hosts lose to each other while they compute.
struct ContentionFit {
  std::int64_t workers = 0;
  Estimate part;
  std::vector<double> draws;  // of part, by the same numbers as delta_s
};

struct CommunicationFit {
  CommunicationKind kind = CommunicationKind::constant;
  Estimate delta_s;
  std::vector<ContentionFit> contention;  // by workers; empty: nothing tells
  double scatter = 0;
  std::vector<double> residuals;
  std::vector<std::size_t> outliers;
  double lack_of_fit = 1;
  std::vector<std::string> warnings;
  std::vector<double> draws;                 // of delta_s
  std::vector<CommunicationSample> samples;  // Delta(P) as it was seen; what a picture shows
};

// delta of one kind: constant, server, ring or tree, without latency. Warns where times between as
// many workers are of several batches, and where workers had more than four times as many samples
// each as others: what computation hides differs then. UsageError for fewer than 2 samples.
CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   CommunicationKind kind, const FitOptions& options = {});

// Fits of the four kinds the one with the least scatter, the first of equals: with one P only,
// constant.
CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   const FitOptions& options = {});

// Fits contention and communication together to whole updates, which several workers on one host
// have made with two shares of a batch or more: T(M, P) = (1 + c) Gamma(M/P) + Delta(P), c >= 0. A
// part of what such an update takes beyond what one worker alone takes for its share grows with the
// share (`compute` has Gamma, fitted to `times`), and by that it is told from communication.
// Numbers of workers of which as many are on one host have one c; with one worker on each host it
// is 0. Where each number of workers was timed with one share, nothing tells c: then this is the
// fit of what beyond_compute() makes of them. Draws go with those of `compute` by their numbers.
CommunicationFit fit_communication(const std::vector<CommunicationSample>& samples,
                                   const std::vector<TimeSample>& times, const ComputeFit& compute,
                                   const FitOptions& options = {});

// Gives the means over each P, robust as above: a Communication of kind table.
Communication communication_table(const std::vector<CommunicationSample>& samples);

// This is a machine whose values were measured or given. Without draws a value counts as exact.
struct MeasuredMachine {
  Machine machine;
  std::vector<ComputeDraw> compute_draws;
  std::vector<double> delta_draws;
  std::vector<std::vector<double>> contention_draws = {};  // by points of machine.contention
  // Times on one side of the knee are all that there are: M_T is what `machine` says at least (and
  // gamma what it says at most), or M_T is that at most.
  bool knee_is_least = false;
  bool knee_is_most = false;
};
// Without times of communication that is unknown: the machine is for one worker.
MeasuredMachine measured_machine(const ComputeFit& compute);
MeasuredMachine measured_machine(const ComputeFit& compute, const CommunicationFit& communication);

}  // namespace convoy::plan
