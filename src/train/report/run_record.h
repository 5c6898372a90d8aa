// What a run folder tells of its run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/logging/phases.h"

namespace convoy::train {

// This is a part of a run, from its begin, or where it went on, to where it ended. What an older
// run didn't write is not there.
struct RunPart {
  std::int64_t resumed_at = 0;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> strings;
  std::map<std::string, std::vector<std::string>> names;
};

// A column a member; not a number where a row hasn't it.
struct StepColumns {
  std::vector<double> step, epoch, elapsed_s, loss, learning_rate, rate;
  std::vector<double> replicas, staleness;          // of runs around a parameter server
  std::array<std::vector<double>, kPhases> phases;  // of rank 0
};

struct EvaluationRecord {
  std::int64_t step = 0;
  double epoch = 0, elapsed_s = 0, time_s = 0, samples = 0;
  std::map<std::string, double> metrics;
};

struct CheckpointRecord {
  std::int64_t step = 0;
  double elapsed_s = 0, time_s = 0, held_s = 0, copied_bytes = 0;
  std::string path;
};

struct EpochRecord {
  std::int64_t step = 0;
  double epoch = 0, loss = 0, time_s = 0, rate = 0;
};

struct RankTimesRecord {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::vector<PhaseSeconds> ranks;
};

struct SlowRankRecord {
  std::int64_t step = 0;
  double rank = 0, own_s = 0, others_s = 0;
  std::string host, phase;
};

// A group of portions that a replica had, of a batch optimization.
struct GroupSpan {
  std::int64_t step = 0;  // of its row
  std::int64_t iteration = 0;
  double evaluation = 0, first = 0, portions = 0;
  std::size_t part = 0;  // of the run: each has its own coordinator
  double replica = 0;    // number there
  bool copy = false;
  enum class End : std::uint8_t { counted, unused, lost } end = End::counted;
  double began_s = 0, ended_s = 0;  // of elapsed time
};

// Of a batch optimization.
struct IterationRecord {
  std::int64_t step = 0;  // which it is
  double elapsed_s = 0, loss = 0, gradient_norm = 0, step_length = 0, evaluations = 0;
  double portions = 0, again = 0, copies = 0, unused = 0;
  bool restarted = false;
};

struct MetricInfo {
  std::string name, title;
  bool higher_is_better = true;
  bool percent = false;
};

struct RunRecord {
  std::string folder;
  std::string label;   // unique among the runs of a report
  std::string recipe;  // text
  std::vector<RunPart> parts;
  StepColumns steps;
  std::vector<EvaluationRecord> evaluations;
  std::vector<CheckpointRecord> checkpoints;
  std::vector<EpochRecord> epochs;
  std::vector<RankTimesRecord> ranks;
  std::vector<SlowRankRecord> slow_ranks;
  std::vector<GroupSpan> groups;  // in the order in which they ended
  std::vector<IterationRecord> iterations;
  std::map<std::pair<std::size_t, double>, std::string> replicas;  // names, by part and number
  std::vector<MetricInfo> metrics;                                 // that evaluations have
  std::string best;                  // the one of these that matters; empty: none
  std::string unit = "samples";      // of rates
  std::int64_t target_at = -1;       // the step at which training.target was reached
  std::string end;                   // how it ended by itself, as its row says; empty: no row
  std::int64_t end_at = 0;           // then
  std::string at_work;               // who, if it is going on now
  std::vector<std::string> missing;  // lines for people

  // These are facts of the last part; 0 and "" where it doesn't say.
  double number(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::vector<std::string> hosts() const;
  std::int64_t last_step() const;
  std::int64_t planned_steps() const;  // perhaps an estimate
  double elapsed_s() const;
  const MetricInfo* metric(const std::string& name) const;
};

// Throws UsageError for what is no run folder, Failure for what can't be read.
RunRecord read_run(const std::string& folder);

}  // namespace convoy::train
