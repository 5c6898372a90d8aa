// This is what a machine needs for one update: the description that every plan starts from.
//
// Equations are numbered as in Perrone et al.; see law.h for threads and errors. Times are in
// seconds, sizes in bytes or samples.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::plan {

// Says how the time of communication grows with the number of workers P, for P > 1.
enum class CommunicationKind {
  none,      // 0
  constant,  // delta + latency: an allreduce on a network that scales perfectly
  server,    // (delta + latency) P: a synchronous parameter server
  ring,      // delta 2 (P-1)/P + latency 2 (P-1)
  tree,      // (delta + latency) log2 P
  table,     // as measured
  unknown    // nothing says; a UsageError for P > 1, never a time of 0
};

std::string_view name(CommunicationKind kind);
// Throws UsageError that names the nearest known kind.
CommunicationKind communication_kind(const std::string& name);

struct CommunicationPoint {
  std::int64_t workers = 0;  // >= 2
  double seconds = 0;        // > 0
  bool operator==(const CommunicationPoint&) const = default;
};

// This is the part of communication that computation does not hide. delta is either given, or it is
// gradient_bytes / bandwidth; validate() refuses both at once.
struct Communication {
  CommunicationKind kind = CommunicationKind::none;
  double delta_s = 0;                     // delta
  double gradient_bytes = 0;              // what a worker contributes to an update
  double bandwidth_bytes_per_s = 0;       // of a worker's link
  double latency_s = 0;                   // of a message; 0 in the paper's models
  std::vector<CommunicationPoint> table;  // kind table: workers ascending
  bool operator==(const Communication&) const = default;
};

// Gives delta, wherever it comes from: 0 for none and table, and where nothing is known.
double delta_seconds(const Communication& communication);

// Delta(P), 0 for P = 1. A table is interpolated linearly over log P between the two points beside
// P; for P outside of it that is a UsageError: nothing is extrapolated. So it is for P > 1 where
// communication is unknown.
double communication_seconds(const Communication& communication, std::int64_t workers);

struct ComputePoint {
  std::int64_t samples = 0;  // >= 1, of one worker
  double seconds = 0;        // > 0
  bool operator==(const ComputePoint&) const = default;
};

// This is how much longer workers compute that share hosts: they share memory, caches and the
// processor's clock, too, so that it grows with what each of them computes, as communication does
// not.
struct ContentionPoint {
  std::int64_t workers = 0;  // >= 2, on all hosts together
  double part = 0;           // c, >= 0: each takes 1 + c times as long as one worker alone
  bool operator==(const ContentionPoint&) const = default;
};

struct Machine {
  double seconds_per_sample = 0;  // gamma, with a whole processor
  double knee_samples = 1;        // M_T: fewer samples than these take no less time
  // This is what an update takes whatever its samples, besides equation 4. The paper's model has
  // none; where there is one, it stands beside Delta(P) in equations 9 to 12.
  double overhead_s = 0;
  // This is what a worker has of its processor, in (0, 1]: it takes 1/share as long for everything.
  double processor_share = 1;
  // Where it is not empty, the measured time of an update by samples (ascending) replaces equation
  // 4: interpolated linearly, the first point's time for fewer samples than that. For more than the
  // last point's gamma goes on from there; UsageError where it is 0. Closed forms need equation 4
  // and refuse a table: see of_equation_4.
  std::vector<ComputePoint> table;
  // By workers, ascending; empty: they cost each other nothing. See contention_part().
  std::vector<ContentionPoint> contention;
  // The most samples that a worker's memory holds; 0: nothing says. No batch gives a worker more.
  std::int64_t memory_samples = 0;
  Communication communication;
  // "measured", "given", or what the user likes; kept, not looked at.
  std::string source;
  std::string name;   // of what was measured, as "AMD EPYC 7B13, 4 cores"; kept, not looked at
  std::string model;  // the network whose times they are; empty: nothing says; kept, not looked at
  bool operator==(const Machine&) const = default;
};

// Throws UsageError naming the field, its value and what would be right.
void validate(const Machine& machine);

// Gives the machine without its table, if it has gamma as well: what equation 4 makes of it.
Machine of_equation_4(Machine machine);

// Gives the most samples that a worker can be given: those of a table's last point where there is
// no gamma to go on with, and what its memory holds; without an end else.
std::int64_t most_samples(const Machine& machine);

// Equation 4: Gamma(M) = gamma max(M, M_T), and the overhead: the time in which one worker computes
// an update from `samples`, > 0.
double compute_seconds(const Machine& machine, double samples);

// Gives c(P): what P workers lose to each other while they compute, as a part of what one alone
// takes. It is 0 for P = 1, where it grows from, and linear over P up to each point of the
// machine's contention. More workers than the last point's are on more hosts, so that they have its
// part.
double contention_part(const Machine& machine, std::int64_t workers);

// (1 + c(P)) Gamma(M): the time in which P workers, each of `samples`, > 0, compute an update.
double compute_seconds(const Machine& machine, double samples, std::int64_t workers);

// This is a part of the data whose loss is computed every so many updates.
struct Validation {
  std::int64_t every_updates = 1;  // N, >= 1
  double seconds_per_sample = 0;   // gamma_CV; forward passes only, so below gamma
  std::int64_t samples = 0;        // M_CV, >= 1
};

// Equation 6: gamma N max(M, M_T) + gamma_CV max(M_CV, M_T), the time of N updates with
// one validation. Samples are those of one worker, both of M and of M_CV.
double compute_seconds_with_validation(const Machine& machine, double samples,
                                       const Validation& validation);

// Equation 3, with contention: T_update(M, P) = (1 + c(P)) Gamma(ceil(M/P)) + Delta(P). Where P
// does not divide M, some workers have one sample more, and the others wait for them. UsageError
// for P > M.
double seconds_per_update(const Machine& machine, std::int64_t batch, std::int64_t workers);

// Writes a machine as TOML, and reads it back:
//
//   source = "measured"
//   name = "AMD EPYC 7B13, 4 cores"             # optional, as source
//   model = "lenet"                             # optional
//   [compute]
//   seconds_per_sample = 1.3e-4
//   knee_samples = 12.5
//   overhead_s = 0.0                            # default
//   processor_share = 1.0                       # default
//   memory_samples = 256                        # default: no limit
//   table = [{samples = 1, seconds = 0.002}]    # optional
//   contention = [{workers = 2, part = 0.05}]   # optional; not in files of before
//   [communication]                             # without it communication is unknown
//   kind = "ring"
//   delta_s = 0.012                             # or gradient_bytes and bandwidth_bytes_per_s; one
//                                               # of them for constant, server, ring and tree
//   latency_s = 1e-5                            # default 0
//   table = [{workers = 2, seconds = 0.01}]     # with kind = "table"
//
// Numbers are written so that they read back as the same bits. Reading throws UsageError with the
// file's name and the line for what is no TOML, unknown keys and tables (naming the nearest known
// one), wrong types, and what validate() refuses. The table [placement] is another planner's and is
// left alone.
std::string to_toml(const Machine& machine);
Machine machine_of_toml(const std::string& text, const std::string& name = "machine");

}  // namespace convoy::plan
