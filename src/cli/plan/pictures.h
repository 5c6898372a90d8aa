// The pictures of a plan's page.
#pragma once

#include "cli/plan/report.h"
#include "train/report/page.h"

namespace convoy::cli {

// Updates to each target against the batch, with the laws: equation 2. Two pictures of a row.
void add_updates_pictures(train::Page& page, const PlanReport& report);
// Draws updates by learning rate, to the hardest target that has an answer; draws nothing for a
// single rate.
void add_rates_picture(train::Page& page, const PlanReport& report);
// A row each. Seconds of an update against the batch, and of communication against workers:
// equations 3, 4.
void add_times_pictures(train::Page& page, const PlanReport& report);
// Time to the hardest target against the batch for each number of workers, with the optimum and its
// interval: equations 5 and 9.
void add_convergence_pictures(train::Page& page, const PlanReport& report);
// Strong, weak and optimal scaling: equation 10.
void add_scaling_pictures(train::Page& page, const PlanReport& report);
// What better processors and networks would bring.
void add_hardware_pictures(train::Page& page, const PlanReport& report);

}  // namespace convoy::cli
