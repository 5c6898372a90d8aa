#include "cli/plan/check_table.h"

#include <algorithm>
#include <cmath>

#include "cli/plan/numbers.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

// Predicted, measured, and by how much that is more.
struct Cells {
  std::string predicted = "-", measured = "-", more;
};

Cells cells_of(const std::optional<double>& predicted, const MeanOutcome& outcome, double measured,
               bool at_least, std::string (*text)(double)) {
  Cells cells;
  if (predicted) cells.predicted = text(*predicted);
  if (!outcome.known()) {
    if (outcome.diverged > 0) cells.measured = "diverged";
    return cells;
  }
  cells.measured = (at_least ? ">" : "") + text(measured);
  if (!predicted || !(*predicted > 0)) return cells;
  const double percent = 100 * (measured / *predicted - 1);
  if (!std::isfinite(percent)) return cells;
  char more[32];
  std::snprintf(more, sizeof more, "%s%+.0f%%", at_least ? ">" : "", percent);
  cells.more = more;
  return cells;
}

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

// How many times the best one's time it took.
std::optional<double> relative(const CheckedRule& rule, const std::optional<double>& best) {
  if (!best || !(*best > 0) || !rule.outcome.known()) return std::nullopt;
  return rule.outcome.seconds / *best;
}

}  // namespace

MeanOutcome outcome_of(const std::vector<CheckedTraining>& trainings) {
  MeanOutcome outcome;
  for (const CheckedTraining& training : trainings) {
    ++outcome.runs;
    outcome.reached += training.reached ? 1 : 0;
    outcome.diverged += training.diverged ? 1 : 0;
    outcome.updates += static_cast<double>(training.updates);
    outcome.seconds += training.seconds;
    outcome.update_s += training.update_s;
  }
  const double runs = std::max(outcome.runs, 1);
  outcome.updates /= runs, outcome.seconds /= runs, outcome.update_s /= runs;
  return outcome;
}

std::optional<double> best_seconds(const std::vector<CheckedRule>& rules) {
  std::optional<double> best;
  for (const CheckedRule& rule : rules) {
    const MeanOutcome& outcome = rule.outcome;
    if (outcome.known() && !outcome.at_least() && (!best || outcome.seconds < *best))
      best = outcome.seconds;
  }
  return best;
}

void print_checks(const std::vector<CheckedRule>& rules, const std::vector<LeftOut>& left_out,
                  std::FILE* out) {
  std::fprintf(out, "\n%-8s %8s %8s %8s %27s  %27s  %29s\n", "", "", "", "", "updates     ",
               "seconds of an update   ", "seconds to the target   ");
  std::fprintf(out, "%-8s %8s %8s %8s %9s %9s %7s  %9s %9s %7s  %10s %10s %7s  %s\n", "rule",
               "batch", "rate", "reached", "predicted", "measured", "", "predicted", "measured", "",
               "predicted", "measured", "", "relative");
  const std::optional<double> best = best_seconds(rules);
  for (const CheckedRule& rule : rules) {
    const MeanOutcome& o = rule.outcome;
    const Checked& c = rule.checked;
    const Cells updates = cells_of(c.updates, o, o.updates, o.at_least(), short_text);
    const Cells each = cells_of(c.update_s, o, o.update_s, false, format_seconds);
    const Cells seconds = cells_of(c.seconds(), o, o.seconds, o.at_least(), format_seconds);
    const std::optional<double> times = relative(rule, best);
    const std::string reached = std::to_string(o.reached) + "/" + std::to_string(o.runs);
    std::fprintf(out, "%-8s %8lld %8s %8s %9s %9s %7s  %9s %9s %7s  %10s %10s %7s  %s\n",
                 c.rule.c_str(), static_cast<long long>(c.batch),
                 short_text(c.learning_rate).c_str(), reached.c_str(), updates.predicted.c_str(),
                 updates.measured.c_str(), updates.more.c_str(), each.predicted.c_str(),
                 each.measured.c_str(), each.more.c_str(), seconds.predicted.c_str(),
                 seconds.measured.c_str(), seconds.more.c_str(),
                 times ? ((o.at_least() ? ">" : "") + short_text(*times)).c_str() : "-");
  }
  for (const CheckedRule& rule : rules) {
    if (!rule.checked.note.empty())
      std::fprintf(out, "%s: %s\n", rule.checked.rule.c_str(), rule.checked.note.c_str());
  }
  for (const LeftOut& one : left_out)
    std::fprintf(out, "%s is left out: %s\n", one.rule.c_str(), one.why.c_str());
  std::fflush(out);
}

void add_rows(const std::vector<CheckedRule>& rules, const std::vector<LeftOut>& left_out,
              std::int64_t workers, Rows& rows) {
  const std::optional<double> best = best_seconds(rules);
  for (const CheckedRule& rule : rules) {
    const MeanOutcome& o = rule.outcome;
    const Checked& c = rule.checked;
    const auto measured = [&o](double value) { return o.known() ? Json(value) : Json(nullptr); };
    rows.add({{"kind", "check"},
              {"rule", c.rule},
              {"workers", workers},
              {"batch", c.batch},
              {"learning_rate", c.learning_rate},
              {"runs", o.runs},
              {"reached", o.reached},
              {"diverged", o.diverged},
              {"predicted_updates", number(c.updates)},
              {"updates", measured(o.updates)},
              {"predicted_update_s", number(c.update_s)},
              {"update_s", measured(o.update_s)},
              {"predicted_seconds", number(c.seconds())},
              {"seconds", measured(o.seconds)},
              {"at_least", o.at_least()},
              {"times_the_best", number(relative(rule, best))},
              {"note", c.note}});
  }
  for (const LeftOut& one : left_out)
    rows.add({{"kind", "left_out"}, {"rule", one.rule}, {"workers", workers}, {"why", one.why}});
}

}  // namespace convoy::cli
