#include "cli/plan/report.h"

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/toml_text.h"
#include "cli/plan/numbers.h"
#include "cli/plan/pictures.h"
#include "convoy/base/units.h"
#include "train/logging/environment.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using train::count_text;
using train::escaped;
using train::Page;

constexpr const char* kUnknown = "–";

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? format_seconds(seconds) : kUnknown;
}

std::string batch_text(double batch) {
  return std::isfinite(batch) ? escaped(short_text(batch)) : "∞";
}

// "64 <50 to 81>", in HTML.
std::string with_interval(const plan::Estimate& estimate, std::string (*text)(double)) {
  return text(estimate.value) + " <span class=\"soft\">" + text(estimate.interval.low) + " to " +
         text(estimate.interval.high) + "</span>";
}

std::string percent_in_html(double percent) { return short_text(percent) + "%"; }

std::string percents_in_html(const plan::Estimate& percents) {
  return with_interval(percents, percent_in_html);
}

std::string time_and_batch(const std::optional<plan::BatchTime>& time) {
  if (!time) return kUnknown;
  return seconds_text(time->seconds) + " <span class=\"soft\">batch " +
         count_text(static_cast<double>(time->batch)) + "</span>";
}

std::string goal_text(const Answers& answers, const LevelAnswer& level) {
  return escaped(answers.metric) + " " + shortest(level.level);
}

void add_warnings(Page& page, const Answers& answers) {
  std::set<std::string> said;
  std::string list;
  const auto add = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (said.insert(line).second) list += "<li>" + escaped(line) + "</li>\n";
    }
  };
  for (const Answers::Without& without : answers.without) add({without.why});
  if (answers.machine.compute) add(answers.machine.compute->warnings);
  if (answers.machine.communication) add(answers.machine.communication->warnings);
  for (const LevelAnswer& level : answers.levels) {
    add(level.updates.warnings);
    for (const plan::BatchChoice& choice : level.choices) add(choice.warnings);
  }
  if (!list.empty()) page.add("<h2>What to bear in mind</h2>\n<ul>" + list + "</ul>\n");
}

void add_choices(Page& page, const Answers& answers, const LevelAnswer& level) {
  std::vector<std::vector<std::string>> rows;
  for (const plan::BatchChoice& c : level.choices) {
    rows.push_back({count_text(static_cast<double>(c.workers)),
                    "<b>" + count_text(static_cast<double>(c.batch)) + "</b>",
                    short_text(c.learning_rate), with_interval(c.seconds, seconds_text),
                    with_interval(c.optimum, batch_text),
                    count_text(static_cast<double>(c.low_batch)) + " to " +
                        count_text(static_cast<double>(c.high_batch)),
                    time_and_batch(c.strong), time_and_batch(c.weak)});
  }
  page.add("<h2>To " + goal_text(answers, level) + "</h2>\n" +
           train::table({"workers", "batch", "rate", "time to the target", "M_opt", "within 5%",
                         "strong scaling", "weak scaling"},
                        rows));
}

void add_law(Page& page, const Answers& answers, const LevelAnswer& level) {
  const plan::UpdateFit& fit = level.updates;
  std::vector<std::vector<std::string>> rows;
  for (const plan::EnvelopePoint& point : fit.envelope) {
    rows.push_back({count_text(static_cast<double>(point.batch)), shortest(point.learning_rate),
                    std::to_string(point.reached) + " of " + std::to_string(point.runs),
                    std::isfinite(point.updates) ? train::number_text(point.updates) : kUnknown,
                    train::number_text(point.fitted), escaped(short_text(point.residual))});
  }
  page.add("<h3>To " + goal_text(answers, level) + "</h3>\n<p>" +
           with_interval(fit.updates_at_infinity, short_text) + " + " +
           with_interval(fit.noise_sensitivity, short_text) + " / M updates" +
           (fit.trusted ? "" : "; <span class=\"bad\">not to be trusted</span>") + "</p>\n" +
           train::table({"batch", "best rate", "reached", "updates", "the law", "residual"}, rows));
}

void add_machine(Page& page, const PlannedMachine& machine) {
  const plan::Machine& m = machine.machine.machine;
  const plan::CommunicationKind kind = m.communication.kind;
  std::vector<std::pair<std::string, std::string>> facts{{"machine", escaped(m.source)}};
  if (!m.table.empty()) {
    facts.emplace_back("an update on one worker takes", table_text(m.table));
  } else if (machine.compute) {
    facts.emplace_back("a sample takes γ",
                       with_interval(machine.compute->seconds_per_sample, seconds_text));
    if (m.overhead_s > 0) {
      facts.emplace_back("an update takes besides",
                         with_interval(machine.compute->overhead_s, seconds_text));
    } else {
      facts.emplace_back("fewer take no less than M_T",
                         with_interval(machine.compute->knee_samples, batch_text));
    }
  } else {
    facts.emplace_back("a sample takes γ", seconds_text(m.seconds_per_sample));
    facts.emplace_back("fewer take no less than M_T", batch_text(m.knee_samples));
    if (m.overhead_s > 0) facts.emplace_back("an update takes besides", seconds_text(m.overhead_s));
  }
  const std::string longer = contention_text(machine, percents_in_html);
  if (!longer.empty()) facts.emplace_back("workers that share a host compute longer", longer);
  if (kind == plan::CommunicationKind::table) {
    facts.emplace_back("communication takes", table_text(m.communication));
  } else if (kind != plan::CommunicationKind::none && kind != plan::CommunicationKind::unknown) {
    facts.emplace_back("communication δ",
                       machine.communication
                           ? with_interval(machine.communication->delta_s, seconds_text)
                           : seconds_text(plan::delta_seconds(m.communication)));
    facts.emplace_back("of the kind", std::string(plan::name(kind)));
  }
  page.add(train::facts(facts));
}

}  // namespace

std::string make_plan_report(const PlanReport& report) {
  const Answers& answers = report.answers;
  const LevelAnswer& hardest = answers.levels.back();
  Page page(kPlanPage, "Plan of " + escaped(report.recipe));
  page.add("<h1>Plan of " + escaped(report.recipe) + "</h1>\n<p class=\"soft\">" +
           train::utc_now() + "; " + count_text(static_cast<double>(report.points.runs.size())) +
           " trainings to " + escaped(answers.metric) + ", " +
           count_text(static_cast<double>(report.samples)) +
           " samples to train with. Intervals are 95% ones.</p>\n");
  for (auto level = answers.levels.rbegin(); level != answers.levels.rend(); ++level)
    add_choices(page, answers, *level);
  add_warnings(page, answers);
  page.add("<h2>Time to " + goal_text(answers, hardest) + "</h2>\n");
  add_convergence_pictures(page, report);
  page.add("<h2>Updates</h2>\n");
  page.begin_row();
  add_updates_pictures(page, report);
  add_rates_picture(page, report);
  page.end_row();
  for (auto level = answers.levels.rbegin(); level != answers.levels.rend(); ++level)
    add_law(page, answers, *level);
  page.add("<h2>Machine</h2>\n");
  add_machine(page, answers.machine);
  add_times_pictures(page, report);
  const bool connected =
      answers.machine.machine.machine.communication.kind != plan::CommunicationKind::unknown;
  if (hardest.updates.trusted && connected) {
    page.add("<h2>Scaling to " + goal_text(answers, hardest) + "</h2>\n");
    add_scaling_pictures(page, report);
  }
  if (hardest.updates.trusted) {
    page.add("<h2>Better machines</h2>\n<p class=\"soft\">Time to " + goal_text(answers, hardest) +
             ", with the batch that is best then, if one part were so many times as good.</p>\n");
    add_hardware_pictures(page, report);
  }
  return page.finish();
}

}  // namespace convoy::cli
