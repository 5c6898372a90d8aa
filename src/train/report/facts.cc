// What a run is, in figures and tables.
#include <algorithm>
#include <cmath>
#include <map>

#include "convoy/base/units.h"
#include "train/report/figures.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

constexpr std::size_t kMostRows = 200;

// "if it is known"
std::string known(double number) { return number > 0 ? count_text(number) : ""; }

// "a × 4, b × 4"
std::string hosts_text(const RunRecord& run) {
  std::vector<std::pair<std::string, int>> hosts;
  for (const std::string& host : run.hosts()) {
    const auto found = std::find_if(hosts.begin(), hosts.end(),
                                    [&host](const auto& other) { return other.first == host; });
    if (found == hosts.end())
      hosts.emplace_back(host, 1);
    else
      ++found->second;
  }
  constexpr std::size_t kMost = 32;
  std::string text;
  for (std::size_t i = 0; i < hosts.size() && i < kMost; ++i) {
    text += (i == 0 ? "" : ", ") + escaped(hosts[i].first);
    if (run.hosts().size() > 1) text += " × " + std::to_string(hosts[i].second);
  }
  if (hosts.size() > kMost) text += " and " + std::to_string(hosts.size() - kMost) + " others";
  return text;
}

// Every so many of long lists, and the last.
template <class Records, class Row>
std::vector<std::vector<std::string>> rows_of(const Records& records, Row&& row) {
  std::vector<std::vector<std::string>> rows;
  const std::size_t every = records.size() / kMostRows + 1;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i % every == 0 || i + 1 == records.size()) rows.push_back(row(records[i]));
  }
  return rows;
}

template <class Records>
std::string heading(const std::string& what, const Records& records) {
  std::string text = what + " (" + std::to_string(records.size());
  if (records.size() > kMostRows)
    text += ", every " + std::to_string(records.size() / kMostRows + 1) + "th is shown";
  return text + ")";
}

std::string folded(const std::string& summary, const std::string& html, bool open = false) {
  return std::string("<details") + (open ? " open" : "") + "><summary>" + summary + "</summary>\n" +
         html + "</details>\n";
}

std::string evaluations(const RunRecord& run) {
  std::vector<std::string> head{"step", "epoch", "at"};
  for (const MetricInfo& metric : run.metrics) head.push_back(escaped(metric.title));
  head.insert(head.end(), {"samples", "took"});
  const EvaluationRecord* best = best_evaluation(run);
  return table(head, rows_of(run.evaluations, [&](const EvaluationRecord& e) {
                 std::vector<std::string> row{count_text(static_cast<double>(e.step)),
                                              number_text(e.epoch), time_text(e.elapsed_s)};
                 for (const MetricInfo& metric : run.metrics) {
                   std::string text = e.metrics.contains(metric.name)
                                          ? metric_text(metric, value_of(e, metric.name))
                                          : std::string();
                   if (&e == best && metric.name == run.best) text = "<b>" + text + "</b>";
                   row.push_back(std::move(text));
                 }
                 row.push_back(count_text(e.samples));
                 row.push_back(time_text(e.time_s));
                 return row;
               }));
}

std::string checkpoints(const RunRecord& run) {
  return table({"step", "written after", "held training up", "copied", "where"},
               rows_of(run.checkpoints, [](const CheckpointRecord& c) {
                 return std::vector<std::string>{
                     count_text(static_cast<double>(c.step)), time_text(c.time_s),
                     time_text(c.held_s),
                     c.copied_bytes >= 0 && c.copied_bytes < 1e18
                         ? format_bytes(static_cast<std::uint64_t>(c.copied_bytes))
                         : "?",
                     escaped(c.path)};
               }));
}

std::string text_of(const RunPart& part, const char* key) {
  const auto found = part.strings.find(key);
  return found == part.strings.end() ? "" : escaped(found->second);
}

std::string number_of(const RunPart& part, const char* key) {
  const auto found = part.numbers.find(key);
  return found == part.numbers.end() ? "" : count_text(found->second);
}

std::string parts(const RunRecord& run) {
  std::vector<std::vector<std::string>> rows;
  for (const RunPart& part : run.parts) {
    rows.push_back(
        {part.resumed_at > 0 ? "from step " + count_text(static_cast<double>(part.resumed_at))
                             : "begin",
         text_of(part, "started"), number_of(part, "ranks"), number_of(part, "threads_per_rank"),
         number_of(part, "batch"), text_of(part, "version"), text_of(part, "resumed_from")});
  }
  return table({"part", "started", "ranks", "threads", "batch", "version", "checkpoint"}, rows);
}

std::string commands(const RunRecord& run) {
  std::string html, before;
  for (const RunPart& part : run.parts) {
    const std::string command = text_of(part, "command");
    if (command.empty() || command == before) continue;
    const std::string folder = text_of(part, "working_folder");
    html += "<pre class=\"line\">" + (folder.empty() ? "" : "cd " + folder + "\n") + command +
            "</pre>\n";
    before = command;
  }
  return html;
}

// "2 shares of a batch, 1 partition"
std::string grid_text(const RunRecord& run) {
  const double shares = run.number("shares"), partitions = run.number("partitions");
  if (!(shares > 0)) return "";
  return known(shares) + (shares == 1 ? " share" : " shares") + " of a batch, " +
         known(partitions) + (partitions == 1 ? " partition" : " partitions");
}

}  // namespace

std::string state_of(const RunRecord& run) {
  const std::string last = count_text(static_cast<double>(run.last_step()));
  const std::string planned =
      run.planned_steps() > 0
          ? " of " + count_text(static_cast<double>(run.planned_steps())) + " steps"
          : " steps";
  const std::string ending = ending_of(run);
  std::string how, what;
  if (ending == "going_on") {
    what = "going on, " + last + planned + " so far";
  } else if (ending == "target") {
    how = "good";
    what = "reached its target after " + last + planned;
  } else if (ending == "done") {
    how = "good";
    what = "done, " + last + " steps";
  } else if (ending == "diverged") {
    how = "bad";
    what = "diverged after " + last + planned;
  } else if (ending == "stopped") {
    what = "stopped after " + last + planned;
  } else if (run.planned_steps() > 0 && run.last_step() >= run.planned_steps()) {
    what = "ended after " + last + planned + "; how is not recorded";
  } else {
    how = "bad";
    what = "ended after " + last + planned + ": stopped, failed or killed";
  }
  return "<span class=\"state " + how + "\">" + what + "</span>" +
         (run.parts.size() > 1 ? ", in " + std::to_string(run.parts.size()) + " parts" : "");
}

void add_summary(Page& page, const RunRecord& run) {
  page.add("<p>" + state_of(run) + "</p>\n");
  if (!run.missing.empty()) {
    page.add("<ul class=\"soft\">\n");
    for (const std::string& line : run.missing) page.add("<li>" + escaped(line) + "</li>\n");
    page.add("</ul>\n");
  }
  const MetricInfo* metric = run.metric(run.best);
  const EvaluationRecord* best = best_evaluation(run);
  std::vector<std::pair<std::string, std::string>> rows;
  if (best != nullptr) {
    rows.emplace_back("best " + escaped(metric->title),
                      metric_text(*metric, best->metrics.at(metric->name)) + " at step " +
                          count_text(static_cast<double>(best->step)));
  }
  const StepColumns& s = run.steps;
  if (!s.step.empty()) {
    rows.emplace_back("last training loss", number_text(last_loss(run)));
    rows.emplace_back("epochs", number_text(s.epoch.back()));
    rows.emplace_back("time", run.elapsed_s() > 0 ? time_text(run.elapsed_s()) : "");
    const double rate = usual_rate(run);
    rows.emplace_back("usual throughput", std::isfinite(rate)
                                              ? number_text(rate) + " " + escaped(run.unit) + "/s"
                                              : "");
  }
  const double threads = run.number("threads_per_rank");
  const std::string replicas = replicas_of(run);
  if (replicas.empty())
    rows.emplace_back("ranks", known(run.number("ranks")) +
                                   (threads > 0 ? " × " + count_text(threads) +
                                                      (threads == 1 ? " thread" : " threads")
                                                : ""));
  else
    rows.emplace_back("replicas", replicas);
  rows.emplace_back("model", escaped(run.text("model")));
  rows.emplace_back("parameters", known(run.number("parameters")));
  rows.emplace_back("batch", known(run.number("batch")));
  rows.emplace_back("training " + escaped(run.unit), known(run.number("training_samples")));
  rows.emplace_back(evaluated_on(run) + " " + escaped(run.unit),
                    known(run.number("validation_samples")));
  page.add(facts(rows));
}

std::string evaluated_on(const RunRecord& run) {
  return run.text("evaluated") == "data.train" ? "evaluation" : "validation";
}

void add_details(Page& page, const RunRecord& run) {
  const bool servers = !replicas_of(run).empty();
  page.add(folded(
      "Command and environment",
      commands(run) +
          facts({{"strategy", escaped(run.text("strategy"))},
                 {"grid", servers ? "" : grid_text(run)},
                 {"shards", servers ? recipe_value(run, run.text("strategy") + ".shards") : ""},
                 {servers ? "evaluator's host" : "hosts × ranks", hosts_text(run)},
                 {"cores per rank", servers ? "" : known(run.number("cores_per_rank"))},
                 {"processor", escaped(run.text("processor"))},
                 {"device", escaped(run.text("device"))},
                 {"precision", escaped(run.text("precision"))},
                 {"version", escaped(run.text("version"))},
                 {"data", escaped(run.text("data"))},
                 {"started", escaped(run.text("started"))},
                 {"folder", escaped(run.folder)},
                 {"at work", escaped(run.at_work)}}) +
          (run.parts.size() > 1 ? parts(run) : ""),
      true));
  if (!run.evaluations.empty())
    page.add(folded(heading("Evaluations", run.evaluations), evaluations(run),
                    run.evaluations.size() <= 12));
  if (!run.checkpoints.empty())
    page.add(folded(heading("Checkpoints", run.checkpoints), checkpoints(run)));
  if (!run.recipe.empty()) page.add(folded("Recipe", "<pre>" + escaped(run.recipe) + "</pre>\n"));
}

}  // namespace convoy::train
