// The parts of a report.
#pragma once

#include <string>
#include <vector>

#include "train/report/page.h"
#include "train/report/run_record.h"

namespace convoy::train {

// What became of it, in a few words of HTML.
std::string state_of(const RunRecord& run);
// Adds figures: how far, how long, how good, how fast.
void add_summary(Page& page, const RunRecord& run);
// Loss, metrics, learning rate and rate, of all runs in the same pictures.
void add_curves(Page& page, const std::vector<RunRecord>& runs);
// Where the time of its steps went, and whose it was.
void add_step_times(Page& page, const RunRecord& run);
// Of a batch optimization: its iterations, and who had which portions when.
void add_groups(Page& page, const RunRecord& run);
// Tables of evaluations and checkpoints; commands, environment, recipe.
void add_details(Page& page, const RunRecord& run);
// What only several runs have: figures beside each other, times to levels of a metric, scaling.
void add_overview(Page& page, const std::vector<RunRecord>& runs);
void add_recipe_differences(Page& page, const std::vector<RunRecord>& runs);
void add_times_to_levels(Page& page, const std::vector<RunRecord>& runs);
void add_scaling(Page& page, const std::vector<RunRecord>& runs);

// What its recipe has for a key ("grid.partitions"), as HTML; empty where it doesn't say.
std::string recipe_value(const RunRecord& run, const std::string& key);
// How many replicas a job around a parameter server was to have, of whose processes the run's rows
// know the evaluator alone; empty for every other run, and where its recipe doesn't say.
std::string replicas_of(const RunRecord& run);
// What evaluations are: "validation", or "evaluation" where they are on the data of training.
std::string evaluated_on(const RunRecord& run);

}  // namespace convoy::train
