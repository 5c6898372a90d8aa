// checks.jsonl in a plan's folder: the trainings of `convoy plan check` that are finished.
//
//   {"kind": "checks", "version": 1, "fingerprint": "9f0c", "metric": "train_loss", "target": 0.1,
//    "machine": "AMD EPYC 7B13, 4 cores"}
//   {"kind": "training", "workers": 2, "batch": 64, "learning_rate": 0.05, "seed": 1001,
//    "reached": true, "diverged": false, "updates": 410, "seconds": 12.5, "update_s": 0.0304,
//    "machine": "AMD EPYC 7B13, 4 cores"}
//
// The first line's machine is that of the first check. Later ones may have more hosts, or fewer, of
// which those of one are the first of the other; a training's machine is the hosts that it was on.
// In files of before it is missing: all were on the first line's.
// A line appears whole; a last one without a line feed was being written and is left out.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convoy/base/lines_file.h"

namespace convoy::cli {

struct CheckedTraining {
  std::int64_t workers = 1;
  std::int64_t batch = 0;
  double learning_rate = 0;
  std::uint64_t seed = 0;
  std::string machine = {};  // the part of it that these workers were on; empty: the file's
  bool reached = false;
  bool diverged = false;     // it would not have reached the target
  std::int64_t updates = 0;  // until the target; or until it was stopped, or diverged
  double seconds = 0;        // that these took, without evaluations
  double update_s = 0;       // of an update, after the first
};

// All that makes trainings comparable.
struct ChecksHeader {
  std::string fingerprint, metric;
  double target = 0;
  std::string machine;
};

class ChecksFile {
 public:
  // Begins it, or goes on with what is in it. One process at a time: UsageError for another, for a
  // file with trainings unless `resume`, and for trainings of another recipe, target or machine.
  ChecksFile(const std::string& path, const ChecksHeader& header, bool resume);

  // A training that needs not be repeated, or null. One that was stopped after fewer updates than
  // `longest`, without having reached the target, is none.
  const CheckedTraining* find(const CheckedTraining& like, std::int64_t longest) const;
  // Adds a line, and waits until it is on the disk.
  void add(const CheckedTraining& training);

 private:
  void read(const std::string& text, const ChecksHeader& header);
  void append(const nlohmann::json& line);

  LinesFile file_;
  std::vector<CheckedTraining> trainings_;
};

}  // namespace convoy::cli
