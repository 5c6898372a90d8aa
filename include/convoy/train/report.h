// Reports of runs: one HTML file that needs nothing else, and its figures. Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace convoy::train {

// This is one run. Numbers that it doesn't say are not a number, counts 0, and texts empty.
struct RunFigures {
  std::string name;  // of its folder; the whole path where several runs have the same
  std::string folder;
  // going_on, done, target (it was reached), stopped (when told to), or unknown: failed, killed, or
  // of a version that didn't say.
  std::string state;
  std::string model;
  std::string strategy;
  std::string unit;  // what updates count
  std::int64_t steps = 0;
  std::int64_t planned_steps = 0;  // an estimate where the task makes batches by cost
  std::int64_t parts = 0;          // it was resumed parts - 1 times
  double epochs = 0;
  double elapsed_s = 0;  // of training, all parts
  // These are of the last part.
  double ranks = 0, threads_per_rank = 0, batch = 0;
  double parameters = 0, training_samples = 0, validation_samples = 0;
  double rate = 0;                      // units per second, see docs/reports.md
  double loss = 0;                      // of the last update
  std::int64_t evaluated_at = -1;       // the step of the last evaluation; -1: there was none
  std::map<std::string, double> final;  // what it found
  // This is the best evaluation by the metric that matters.
  std::string best_metric;
  double best = 0;
  std::int64_t best_step = -1;
  double best_elapsed_s = 0;
};

// Says when a run's evaluation was first as good as this.
struct LevelTime {
  std::string metric;
  double level = 0;
  std::size_t run = 0;     // its place
  std::int64_t step = -1;  // -1: it never was
  double elapsed_s = 0;
};

// Among runs of the same network on different numbers of ranks.
struct SpeedUp {
  std::size_t group = 0;
  std::size_t run = 0;  // its place
  double ranks = 0, threads_per_rank = 0, batch = 0;
  double rate = 0;        // units per second
  double speed_up = 0;    // against the fewest ranks of the group
  double ideal = 0;       // ranks over these
  double efficiency = 0;  // the one over the other
};

struct ReportFigures {
  std::vector<RunFigures> runs;
  std::vector<LevelTime> levels;   // of several runs
  std::vector<SpeedUp> speed_ups;  // the same
};

// This is what run folders tell: what each run is and how it went, and of several of them curves in
// one picture, times to levels of a metric, and scaling. Runs may be going on, have been killed, or
// been resumed.
class Report {
 public:
  // Reads the folders. Throws UsageError for a path that is no run, Failure where a file can't be
  // read.
  explicit Report(const std::vector<std::string>& folders);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  ReportFigures figures() const;
  // Gives the page. Of what a run doesn't have, it says so. Curves are thinned so that every peak
  // stays. Pictures are drawn by gnuplot: Failure where that can't be started, or fails.
  std::string page() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::train
