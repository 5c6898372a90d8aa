// What curves of runs are drawn over.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/report/page.h"
#include "train/report/run_record.h"

namespace convoy::train {

// One axis for all of the runs, in a unit that fits them.
class Axis {
 public:
  Axis(Over over, std::span<const RunRecord> runs);

  // Whether any run has it.
  bool known() const { return most_ > 0; }
  const std::string& label() const { return label_; }
  double most() const { return most_; }
  // Gives the places of the updates that were recorded, in the order of the run's columns.
  std::vector<double> of_steps(const RunRecord& run) const;
  // Gives the place of an update; not a number where it isn't known.
  double at(const RunRecord& run, std::int64_t step) const;
  double of_evaluation(const RunRecord& run, const EvaluationRecord& evaluation) const;

 private:
  const std::vector<double>& column(const RunRecord& run) const;

  Over over_;
  double unit_ = 1;
  double most_ = 0;  // in the unit
  std::string label_;
};

}  // namespace convoy::train
