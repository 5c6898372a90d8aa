// plan/points.jsonl: what a plan has measured so far, one measurement in a line.
//
//   {"kind": "plan", "version": 1, "fingerprint": "9f0c...", "metric": "train_loss", "targets":
//   [0.3, 0.1]}
//   {"kind": "run", "batch": 64, "learning_rate": 0.05, "seed": 1, "updates": 900, "seconds": 12.5,
//    "diverged": false, "reached": [[0.3, 410]], "stopped": "limit"}
//   {"kind": "machine", "name": "AMD EPYC 7B13, 4 cores"}
//   {"kind": "time", "samples": 64, "seconds": 0.0123}
//   {"kind": "communication", "workers": 4, "seconds": 0.005, "batch": 256, "update_s": 0.0171,
//    "host_workers": 4}
//
// The first line says what is measured, the others follow in any order, but that a run's last line
// takes the place of those before it, and that times are of the machine that was last named. A line
// appears whole, so that a plan that is killed anywhere has all its finished measurements; a last
// line without a line feed was being written and is left out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/lines_file.h"
#include "convoy/plan/machine_fit.h"
#include "convoy/plan/update_fit.h"

namespace convoy::plan {

struct PlanHeader {
  // Stands for all that makes runs comparable (network, data, optimizer), as the caller sees fit:
  // points of another one are refused.
  std::string fingerprint;
  std::string metric;
  std::vector<double> targets;  // levels of the metric, at least one, each once
  bool operator==(const PlanHeader&) const = default;
};

// Says why a run was stopped before it had reached all targets.
enum class Stop {
  none,      // it was not, or nothing is known of it
  limit,     // of updates
  hopeless,  // another rate had reached the target long before
  budget     // of the plan
};

// This is one training run, for all targets.
struct PointRun {
  std::int64_t batch = 0;
  double learning_rate = 0;
  std::uint64_t seed = 0;
  std::int64_t updates = 0;  // when it was stopped
  double seconds = 0;        // that it took
  bool diverged = false;
  std::vector<std::pair<double, std::int64_t>> reached;  // target, and updates until it was reached
  Stop stopped = Stop::none;
  bool operator==(const PointRun&) const = default;
};

// This is what is measured of a machine.
struct MachineTimes {
  std::vector<TimeSample> times;
  std::vector<CommunicationSample> communication;
};

struct PlanPoints {
  PlanHeader header;
  std::vector<PointRun> runs;  // one for each batch, learning rate and seed
  std::string machine;         // that times are of; empty: nothing says
  std::vector<TimeSample> times;
  std::vector<CommunicationSample> communication;
  std::map<std::string, MachineTimes> elsewhere;  // on other machines, by name

  // Gives the runs towards one target, one of the header's, for fit_updates(): censored where it
  // was not reached. UsageError for another target, naming those there are.
  std::vector<UpdateRun> updates(double target) const;
  // Gives this run, or null.
  const PointRun* find(std::int64_t batch, double learning_rate, std::uint64_t seed) const;
  bool has(std::int64_t batch, double learning_rate, std::uint64_t seed) const {
    return find(batch, learning_rate, seed) != nullptr;
  }

  // Adds it, in the place of another of its batch, learning rate and seed.
  void put(const PointRun& run);
  // Makes `times` and `communication` those of this machine from now on; those that nothing says
  // the machine of are taken for its.
  void move_to(const std::string& machine);
};

// Reads points. UsageError with the name and line for what is not as above: no JSON, an unknown
// kind or version, values out of range, a target that is not the header's, reached after the last
// update.
PlanPoints points_of_text(const std::string& text, const std::string& name = "points.jsonl");

// This is the file, open for adding. Only one process at a time: UsageError for another.
class PointsFile {
 public:
  // Starts a file, or goes on with one that has the same header: UsageError for other headers, or
  // what points_of_text() refuses. The folder must exist. Failure when it can't be written.
  PointsFile(const std::string& path, const PlanHeader& header);

  // Gives all that is in the file, also what was added.
  const PlanPoints& points() const { return points_; }

  // Adds a line, with one write, and waits until it is on the disk. UsageError for what
  // points_of_text() would refuse, Failure when it can't be written; neither changes points(). As
  // PlanPoints::put(), and PlanPoints::move_to(), which adds none where nothing changes.
  void add(const PointRun& run);
  void move_to(const std::string& machine);
  void add(const TimeSample& time);
  void add(const CommunicationSample& time);

 private:
  LinesFile file_;
  PlanPoints points_;
};

}  // namespace convoy::plan
