// The runs of every batch and learning rate, and the best rate of every batch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/plan/update_fit.h"
#include "plan/law_solver.h"

namespace convoy::plan {

// The runs of one batch and learning rate.
struct Cell {
  double learning_rate = 0;
  LogRuns runs;
  std::map<std::uint64_t, LogRuns> by_seed;  // the same
  bool diverged = false;
  double center = 0;  // of log(updates)

  bool usable() const { return !diverged && !runs.reached.empty(); }
};

struct Row {
  std::int64_t batch = 0;
  std::vector<Cell> cells;  // by learning rate
  std::size_t best = 0;     // of all its runs: the rate to use
  // What the law is fitted to: of each seed the runs at the rate that is best by the other seeds.
  // The fewest of several means is low by chance, and runs that had no part in the choice are not.
  // Where the best rate has runs of one seed alone, these are all that there is.
  LogRuns fitted;
  double center = 0;  // of their logarithms; where some have reached the target

  bool usable() const { return !fitted.reached.empty(); }
  const Cell& chosen() const { return cells[best]; }
  double x() const { return 1 / static_cast<double>(batch); }
};

struct Envelope {
  std::vector<Row> rows;  // by batch, those without a usable run left out
  double scatter = 0;     // within cells; a guess where no cell has several runs that reached it
  std::vector<std::string> warnings;
};

// Throws UsageError as fit_updates() says.
Envelope envelope_of(const std::vector<UpdateRun>& runs);

}  // namespace convoy::plan
