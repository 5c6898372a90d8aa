// The runs of every batch and learning rate, and the best rate of every batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/plan/update_fit.h"
#include "plan/law_solver.h"

namespace convoy::plan {

// The runs of one batch and learning rate.
struct Cell {
  double learning_rate = 0;
  LogRuns runs;
  bool diverged = false;
  double center = 0;  // of log(updates)

  bool usable() const { return !diverged && !runs.reached.empty(); }
};

struct Row {
  std::int64_t batch = 0;
  std::vector<Cell> cells;  // by learning rate
  std::size_t best = 0;

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
