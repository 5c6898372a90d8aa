// What a run of a comparison came to.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/downpour/comparison.h"
#include "cli/drawing.h"
#include "train/report/run_record.h"

namespace convoy::cli {

// What only the process that started a run knows.
struct RunEnd {
  std::string state;      // done, target, diverged, stopped or failed
  std::string complaint;  // why it failed
  double wall_s = kNone;
  double cpu_s = kNone;  // of all its processes; not known on other hosts
  std::string hosts;
  bool began = true;  // its run folder is its own, and not that of a run before it
};

// Seconds of training until the parameters of an evaluation were there. Evaluations of one worker,
// or of synchronous ones, hold training up and are not in it; with Downpour they don't, and it is
// the moment at which this one began.
std::vector<double> training_seconds(const Arm& arm, const train::RunRecord& run);
// Gives the seconds of training until each row of kind `step`, counted in the same way.
std::vector<double> training_seconds_of_steps(const Arm& arm, const train::RunRecord& run);

// Gives the name of a run's metric on a part of data.train (evaluation.training_fraction).
std::string name_of_training(const train::RunRecord& run);

// The evaluation at which the level was reached first; -1 if it never was.
std::ptrdiff_t reached_at(const train::RunRecord& run, double level);

// A row of the table, as --json has it (docs/downpour.md). `cores`: of one host.
nlohmann::ordered_json row_of(const Arm& arm, const train::RunRecord& run, const RunEnd& end,
                              std::optional<double> level, int cores);
// Makes the row of a run that left no metrics.
nlohmann::ordered_json row_of(const Arm& arm, const RunEnd& end);
// What row_of() was told.
RunEnd end_of(const nlohmann::ordered_json& row);

// Not a number where it is not there, or null.
double number_in(const nlohmann::ordered_json& row, const char* key);

// What the table and the page are made of.
struct ComparedRun {
  const Arm* arm = nullptr;
  train::RunRecord record;  // without a folder: there is none
  nlohmann::ordered_json row;
};
struct ComparedRuns {
  std::vector<ComparedRun> runs;
  std::optional<double> level;
  std::optional<double> start;              // the metric of what all began with
  std::optional<double> start_of_training;  // the same on the part of data.train
  // Gives the metric of the first run that names one; null if none does.
  const train::MetricInfo* metric() const;
  // Gives it as it is on a part of data.train; null where no run was evaluated on that.
  const train::MetricInfo* metric_of_training() const;
  std::vector<const Arm*> arms() const;
};

}  // namespace convoy::cli
