#include "cli/plan/check_table.h"

#include <algorithm>
#include <cmath>

#include "base/toml_text.h"
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

constexpr double kTwoSided = 1.959964;  // 95% of a normal distribution

const char* verdict_name(CheckVerdict::Kind kind) {
  switch (kind) {
    case CheckVerdict::Kind::shorter:
      return "shorter than predicted";
    case CheckVerdict::Kind::longer:
      return "longer than predicted";
    default:
      return "as predicted";
  }
}

// Whether the plan's own batch was the soonest of them.
std::string comparison_text(const std::vector<CheckedRule>& rules) {
  const CheckedRule *own = nullptr, *best = nullptr;
  for (const CheckedRule& rule : rules) {
    if (!rule.outcome.known() || rule.outcome.at_least()) continue;
    if (rule.checked.rule == "optimal") own = &rule;
    if (best == nullptr || rule.outcome.seconds < best->outcome.seconds) best = &rule;
  }
  if (own == nullptr || rules.size() < 2) return "";
  if (best == own || best->checked.batch == own->checked.batch)
    return "the plan's batch, " + std::to_string(own->checked.batch) +
           ", was the soonest of them\n";
  const double more = own->outcome.seconds / best->outcome.seconds;
  const double scatter = std::max(own->checked.scatter, best->checked.scatter);
  const double luck =
      std::exp(kTwoSided * scatter * std::sqrt(1.0 / own->outcome.runs + 1.0 / best->outcome.runs));
  return "the plan's batch, " + std::to_string(own->checked.batch) + ", took " + short_text(more) +
         " times as long as that of " + best->checked.rule +
         (more <= luck ? ", which may be chance (up to " : ", more than chance makes (up to ") +
         short_text(luck) + " times)\n";
}

// How many times the best one's time it took.
std::optional<double> relative(const CheckedRule& rule, const std::optional<double>& best) {
  if (!best || !(*best > 0) || !rule.outcome.known()) return std::nullopt;
  return rule.outcome.seconds / *best;
}

}  // namespace

MeanOutcome outcome_of(const std::vector<CheckedTraining>& trainings) {
  MeanOutcome outcome;
  double squares = 0;
  for (const CheckedTraining& training : trainings) {
    ++outcome.runs;
    outcome.reached += training.reached ? 1 : 0;
    outcome.diverged += training.diverged ? 1 : 0;
    outcome.updates += static_cast<double>(training.updates);
    outcome.seconds += training.seconds;
    squares += training.seconds * training.seconds;
    outcome.update_s += training.update_s;
  }
  const double runs = std::max(outcome.runs, 1);
  outcome.updates /= runs, outcome.seconds /= runs, outcome.update_s /= runs;
  if (outcome.runs > 1) {
    const double variance = squares / runs - outcome.seconds * outcome.seconds;
    outcome.seconds_se = std::sqrt(std::max(variance, 0.0) / (runs - 1));
  }
  return outcome;
}

std::optional<CheckVerdict> verdict_of(const CheckedRule& rule) {
  const MeanOutcome& outcome = rule.outcome;
  const std::optional<double> predicted = rule.checked.seconds();
  if (!outcome.known() || !predicted || !(*predicted > 0) || !rule.checked.range)
    return std::nullopt;
  const double luck = kTwoSided * rule.checked.scatter / std::sqrt(outcome.runs);
  const auto [low, high] = *rule.checked.range;
  CheckVerdict verdict;
  verdict.expected.low =
      low > 0 ? *predicted * std::exp(-std::hypot(std::log(*predicted / low), luck)) : 0;
  verdict.expected.high = *predicted * std::exp(std::hypot(std::log(high / *predicted), luck));
  if (outcome.seconds > verdict.expected.high) {
    verdict.kind = CheckVerdict::Kind::longer;
  } else if (outcome.at_least()) {
    return std::nullopt;
  } else if (outcome.seconds < verdict.expected.low) {
    verdict.kind = CheckVerdict::Kind::shorter;
  }
  return verdict;
}

std::string verdict_text(const std::vector<CheckedRule>& rules, const CheckedGoal& goal) {
  std::string text = "to " + goal.metric + " " + shortest(goal.target) + " on " +
                     std::to_string(goal.workers) + (goal.workers == 1 ? " worker" : " workers") +
                     ", means of seconds:\n";
  int judged = 0, right = 0;
  for (const CheckedRule& rule : rules) {
    const std::optional<CheckVerdict> verdict = verdict_of(rule);
    text += "  " + rule.checked.rule + ": ";
    if (!verdict) {
      text += "no verdict\n";
      continue;
    }
    text += (rule.outcome.at_least() ? "more than " : "") + format_seconds(rule.outcome.seconds) +
            ", expected (95%) " + format_seconds(verdict->expected.low) + " to " +
            format_seconds(verdict->expected.high) + ": " + verdict_name(verdict->kind) + "\n";
    if (rule.checked.rule == "linear") continue;  // predicted is what another rate takes
    ++judged;
    right += verdict->kind == CheckVerdict::Kind::as_predicted ? 1 : 0;
  }
  if (judged > 0) {
    text += (right == judged ? "the plan holds: " : "the plan does not hold: ") +
            std::to_string(right) + " of " + std::to_string(judged) +
            (judged == 1 ? " rule" : " rules") + " came out as predicted\n";
  }
  return text + comparison_text(rules);
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
              const CheckedGoal& goal, Rows& rows) {
  const std::optional<double> best = best_seconds(rules);
  for (const CheckedRule& rule : rules) {
    const MeanOutcome& o = rule.outcome;
    const Checked& c = rule.checked;
    const auto measured = [&o](double value) { return o.known() ? Json(value) : Json(nullptr); };
    const std::optional<CheckVerdict> verdict = verdict_of(rule);
    const auto bound = [](const std::optional<plan::Interval>& range, double plan::Interval::*end) {
      return range ? number((*range).*end) : Json(nullptr);
    };
    std::optional<plan::Interval> expected;
    if (verdict) expected = verdict->expected;
    rows.add({{"kind", "check"},
              {"rule", c.rule},
              {"metric", goal.metric},
              {"target", goal.target},
              {"workers", goal.workers},
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
              {"predicted_seconds_low", bound(c.range, &plan::Interval::low)},
              {"predicted_seconds_high", bound(c.range, &plan::Interval::high)},
              {"expected_seconds_low", bound(expected, &plan::Interval::low)},
              {"expected_seconds_high", bound(expected, &plan::Interval::high)},
              {"seconds", measured(o.seconds)},
              {"seconds_se", o.known() ? number(o.seconds_se) : Json(nullptr)},
              {"verdict", verdict ? Json(verdict_name(verdict->kind)) : Json(nullptr)},
              {"at_least", o.at_least()},
              {"times_the_best", number(relative(rule, best))},
              {"note", c.note}});
  }
  for (const LeftOut& one : left_out)
    rows.add(
        {{"kind", "left_out"}, {"rule", one.rule}, {"workers", goal.workers}, {"why", one.why}});
}

}  // namespace convoy::cli
