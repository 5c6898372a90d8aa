// The folder of a comparison: what is finished there, and what has other settings.
//
//   rows.jsonl             a row for each run that has ended
//   RUN/                   its run folder
//   recipes/RUN.toml       what it was started with, which its settings are compared with
//   logs/RUN.txt           what it printed
//   warm-start.safetensors what all begin with
//   report.html            for people
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench/downpour/comparison.h"
#include "convoy/base/descriptor.h"

namespace convoy::cli {

class ComparisonFolder {
 public:
  // Makes it. Throws UsageError when another process is at work in it, Failure where it can't be
  // made or read.
  explicit ComparisonFolder(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // The row of a run; null if there is none.
  const nlohmann::ordered_json* row(const std::string& run) const;
  void put(nlohmann::ordered_json row);
  // This run is no longer finished; no run is: they began with other weights.
  void forget(const std::string& run);
  void forget_all();

  // Whether it has been trained to its end here, or to where it diverged.
  bool finished(const Arm& arm) const;
  // What a run there was trained with and this one is not: "optimizer.lr was 0.01 and is 0.02".
  // Empty where there is no run, or one with the same settings.
  std::vector<std::string> differences(const Arm& arm, const Comparison& comparison) const;

 private:
  void write() const;

  std::string path_;
  Descriptor lock_;
  std::vector<nlohmann::ordered_json> rows_;
};

// Lists which of all arms and the warm start have to be trained: those that are not finished, and,
// with `overwrite`, those that are there with other settings. A warm start that is trained again
// begins everything anew. Without `overwrite` other settings, and a warm start that is gone from
// what began with it, are a UsageError that says which.
std::vector<const Arm*> to_train(const Comparison& comparison, const ComparisonFolder& folder,
                                 bool overwrite);

}  // namespace convoy::cli
