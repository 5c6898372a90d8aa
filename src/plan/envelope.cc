#include "plan/envelope.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "plan/checks.h"
#include "plan/location.h"

namespace convoy::plan {
namespace {

// Where no batch and rate was run twice, only the order of rates depends on it.
constexpr double kGuessedScatter = 0.2;

using Cells = std::map<std::int64_t, std::map<double, Cell>>;

Cells cells_of(const std::vector<UpdateRun>& runs) {
  Cells cells;
  for (const UpdateRun& run : runs) {
    check_at_least("the batch of a run", run.batch, 1);
    check_positive("the learning rate of a run", run.learning_rate);
    check_at_least("the updates of a run", run.updates, 1);
    Cell& cell = cells[run.batch][run.learning_rate];
    cell.learning_rate = run.learning_rate;
    for (LogRuns* runs : {&cell.runs, &cell.by_seed[run.seed]}) {
      auto& logs = run.reached && !run.diverged ? runs->reached : runs->stopped;
      logs.push_back(std::log(static_cast<double>(run.updates)));
    }
    cell.diverged |= run.diverged;
  }
  return cells;
}

// How far apart the runs of one cell are, over all cells.
double scatter_within(const Cells& cells) {
  std::vector<double> distances;
  std::size_t groups = 0;
  for (const auto& [batch, rates] : cells) {
    for (const auto& [rate, cell] : rates) {
      if (cell.runs.reached.size() < 2) continue;
      const double center = location_of(cell.runs.reached).center;
      for (const double value : cell.runs.reached) distances.push_back(value - center);
      ++groups;
    }
  }
  if (groups == 0) return kGuessedScatter;
  return std::max(location_of(distances, static_cast<double>(groups)).scatter, 1e-9);
}

double last_stop(const Cell& cell) {
  double last = 0;
  for (const double y : cell.runs.reached) last = std::max(last, y);
  for (const double y : cell.runs.stopped) last = std::max(last, y);
  return last;
}

std::string at(std::int64_t batch, double rate) {
  return "batch " + std::to_string(batch) + ", learning rate " + shortest(rate);
}

void append(const LogRuns& more, LogRuns& runs) {
  runs.reached.insert(runs.reached.end(), more.reached.begin(), more.reached.end());
  runs.stopped.insert(runs.stopped.end(), more.stopped.begin(), more.stopped.end());
}

LogRuns of_other_seeds(const Cell& cell, std::uint64_t seed) {
  LogRuns runs;
  for (const auto& [other, own] : cell.by_seed) {
    if (other != seed) append(own, runs);
  }
  return runs;
}

// Of the rates that were tried with this seed and with others, the best by those.
const Cell* best_by_other_seeds(const Row& row, std::uint64_t seed, double scatter) {
  const Cell* best = nullptr;
  double least = 0;
  for (const Cell& cell : row.cells) {
    if (!cell.usable() || !cell.by_seed.contains(seed)) continue;
    const LogRuns others = of_other_seeds(cell, seed);
    if (others.reached.empty()) continue;
    const double center = center_of(others, scatter);
    if (best == nullptr || center < least) best = &cell, least = center;
  }
  return best;
}

LogRuns fitted_runs(const Row& row, double scatter) {
  const Cell& best = row.chosen();
  if (!best.usable() || best.by_seed.size() < 2) return best.runs;
  std::set<std::uint64_t> seeds;
  for (const Cell& cell : row.cells) {
    if (!cell.usable()) continue;
    for (const auto& [seed, runs] : cell.by_seed) seeds.insert(seed);
  }
  LogRuns fitted;
  for (const std::uint64_t seed : seeds) {
    const Cell* cell = best_by_other_seeds(row, seed, scatter);
    if (cell != nullptr) append(cell->by_seed.at(seed), fitted);
  }
  return fitted.reached.empty() ? best.runs : fitted;
}

// Whether luck may have decided which rate is the best, and the lucky runs are those that the law
// is fitted to.
bool is_chosen_by_what_is_fitted(const Row& row, double scatter) {
  const Cell& best = row.chosen();
  if (!best.usable() || best.by_seed.size() > 1) return false;
  return std::any_of(row.cells.begin(), row.cells.end(), [&](const Cell& cell) {
    if (&cell == &best || !cell.usable()) return false;
    const double count = static_cast<double>(cell.runs.reached.size());
    const double own = static_cast<double>(best.runs.reached.size());
    return cell.center - best.center < 2 * scatter * std::sqrt(1 / count + 1 / own);
  });
}

void choose(Row& row, double scatter, std::vector<std::string>& warnings) {
  const Cell* best = nullptr;
  for (Cell& cell : row.cells) {
    cell.center = center_of(cell.runs, scatter);
    if (cell.usable() && (best == nullptr || cell.center < best->center)) best = &cell;
  }
  if (best == nullptr) {
    // The one that was given most time says most about what the batch needs at least.
    for (const Cell& cell : row.cells) {
      if (cell.diverged) continue;
      if (best == nullptr || last_stop(cell) > last_stop(*best)) best = &cell;
    }
  }
  row.best = static_cast<std::size_t>(best - row.cells.data());
  row.fitted = fitted_runs(row, scatter);
  if (row.usable()) row.center = center_of(row.fitted, scatter);
  if (!best->usable()) return;
  for (const Cell& cell : row.cells) {
    if (cell.usable() || cell.diverged || last_stop(cell) >= best->center) continue;
    warnings.push_back("runs at " + at(row.batch, cell.learning_rate) +
                       " were stopped before the learning rate " + shortest(best->learning_rate) +
                       " reaches the target there: they may be the better ones");
  }
}

// Of what the fit takes: the runs at each batch's chosen rate.
void check_enough(const Cells& cells, const std::vector<Row>& rows) {
  int chosen = 0, batches = 0, reached = 0;
  for (const Row& row : rows) {
    if (!row.usable()) continue;
    chosen += static_cast<int>(row.fitted.reached.size());
    ++batches;
  }
  if (batches >= 2 && chosen >= 3) return;
  double furthest = -1;
  std::string where;
  for (const auto& [batch, rates] : cells) {
    for (const auto& [rate, cell] : rates) {
      if (cell.usable()) reached += static_cast<int>(cell.runs.reached.size());
      if (last_stop(cell) <= furthest) continue;
      furthest = last_stop(cell);
      where = at(batch, rate);
    }
  }
  std::string text = "the target was reached by " + std::to_string(chosen) + " runs at " +
                     std::to_string(batches) + " batches";
  if (reached > chosen) {
    text += " with the learning rates that are best for them (and by " +
            std::to_string(reached - chosen) + " with others)";
  }
  text += "; a fit needs at least 3 runs, at two or more batches";
  if (!where.empty()) {
    text += "; the longest run, " + where + ", had " + shortest(std::round(std::exp(furthest))) +
            " updates";
  }
  throw UsageError(text);
}

// Where no rate beyond the best was tried, that may be better.
void warn_of_ends(const std::vector<Row>& rows, std::vector<std::string>& warnings) {
  for (const bool largest : {true, false}) {
    std::string batches;
    for (const Row& row : rows) {
      if (row.cells.size() < 2 || !row.chosen().usable()) continue;
      const double best = row.chosen().learning_rate;
      const bool at_end = std::all_of(row.cells.begin(), row.cells.end(), [&](const Cell& cell) {
        return largest ? cell.learning_rate <= best : cell.learning_rate >= best;
      });
      if (at_end) batches += (batches.empty() ? "" : ", ") + std::to_string(row.batch);
    }
    if (batches.empty()) continue;
    warnings.push_back(std::string("the best learning rate is the ") +
                       (largest ? "largest" : "smallest") + " that was tried, at batch " + batches +
                       ": try " + (largest ? "larger" : "smaller") + " ones, too");
  }
}

void warn_of_single_runs(const std::vector<Row>& rows, double scatter,
                         std::vector<std::string>& warnings) {
  std::string batches;
  for (const Row& row : rows) {
    if (is_chosen_by_what_is_fitted(row, scatter))
      batches += (batches.empty() ? "" : ", ") + std::to_string(row.batch);
  }
  if (batches.empty()) return;
  warnings.push_back("at batch " + batches +
                     " the learning rate is chosen by the same run that the law is fitted to: of "
                     "rates that are nearly as good this is the luckiest, and the updates come out "
                     "too few; run more seeds");
}

}  // namespace

Envelope envelope_of(const std::vector<UpdateRun>& runs) {
  const Cells cells = cells_of(runs);
  Envelope envelope;
  envelope.scatter = scatter_within(cells);
  for (const auto& [batch, rates] : cells) {
    Row row;
    row.batch = batch;
    bool any = false;
    for (const auto& [rate, cell] : rates) {
      row.cells.push_back(cell);
      any |= !cell.diverged;
    }
    if (!any) {
      envelope.warnings.push_back("every learning rate diverged at batch " + std::to_string(batch) +
                                  ": it is left out; try lower ones");
      continue;
    }
    choose(row, envelope.scatter, envelope.warnings);
    envelope.rows.push_back(std::move(row));
  }
  check_enough(cells, envelope.rows);
  warn_of_ends(envelope.rows, envelope.warnings);
  warn_of_single_runs(envelope.rows, envelope.scatter, envelope.warnings);
  return envelope;
}

}  // namespace convoy::plan
