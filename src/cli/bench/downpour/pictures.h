// The pictures of a comparison's page.
#pragma once

#include "cli/bench/downpour/figures.h"
#include "train/report/page.h"

namespace convoy::cli {

train::Color color_of(Method method);

// Pictures of a row. Figure 4: the metric, and the loss of training, against seconds of training,
// all runs in one picture by method, and what they come to in the end.
void add_curves(train::Page& page, const ComparedRuns& runs);
// Adds the same pictures for each method that has several runs, with a color for each run.
void add_curves_by_method(train::Page& page, const ComparedRuns& runs);

// A row. Figure 5: seconds to the level against replicas, and against the cores in use. REQUIRES: a
// level.
void add_times(train::Page& page, const ComparedRuns& runs);

}  // namespace convoy::cli
