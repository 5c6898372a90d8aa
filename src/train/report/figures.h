// What a report says in numbers, for its page and for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/train/report.h"
#include "train/report/run_record.h"

namespace convoy::train {

// Gives RunFigures::state.
std::string ending_of(const RunRecord& run);
// The usual rate of a run: the median over the updates on as many ranks and threads and with the
// same batch as the last, but for the first ten of each part.
double usual_rate(const RunRecord& run);
// The best evaluation by the metric that matters; null if there is none.
const EvaluationRecord* best_evaluation(const RunRecord& run);
// Gives not a number where the evaluation doesn't have the metric.
double value_of(const EvaluationRecord& evaluation, const std::string& metric);

// Whether a value is as good as a level; not a number is not.
bool reaches(const MetricInfo& metric, double value, double level);

// Gives the loss of training in the last row that has one. Around a parameter server rows may come
// before replicas have told of theirs.
double last_loss(const RunRecord& run);

RunFigures figures_of(const RunRecord& run);

// These are up to 6 levels, the hardest last, of the metric that matters to the first run that has
// one, and for each level the times of all runs.
struct Levels {
  MetricInfo metric;
  std::vector<double> levels;
  std::vector<LevelTime> times;  // levels x runs
};
std::optional<Levels> times_to_levels(const std::vector<RunRecord>& runs);

// Runs of the same network on different numbers of ranks, the fewest first.
std::vector<std::vector<SpeedUp>> speed_ups(const std::vector<RunRecord>& runs);

}  // namespace convoy::train
