#include "cli/bench/downpour/page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/toml_text.h"
#include "cli/bench/downpour/cells.h"
#include "cli/bench/downpour/pictures.h"
#include "cli/bench/downpour/table.h"
#include "convoy/base/units.h"
#include "train/logging/environment.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;
using train::count_text;
using train::escaped;
using train::Page;

std::string label(const ComparedRuns& runs, const ComparedRun& run) {
  return "<span class=\"key\" style=\"margin:0;color:inherit;white-space:normal\"><i "
         "style=\"background:var(" +
         color_of(run.arm->method).variable() + ")\"></i>" +
         escaped(full_title(*run.arm, runs.arms())) + "</span>";
}

// In a table, where long ones take several lines.
std::string label_cell(const ComparedRuns& runs, const ComparedRun& run) {
  return "<div style=\"white-space:normal;min-width:13em\">" + label(runs, run) + "</div>";
}

std::string number_cell(double value) {
  return std::isfinite(value) ? train::number_text(value) : "";
}

// "1.85 of 2": in use, of those given.
std::string cores_cell(const Json& row) {
  const std::string used = formatted("%.2f", number_in(row, "cores_used"));
  const std::string given = formatted("%.3g", number_in(row, "cores_given"));
  if (used.empty() || given.empty()) return used + given;
  return used + " <span class=\"soft\">of " + given + "</span>";
}

std::string state_cell(const std::string& state) {
  if (state == "done" || state == "target") return escaped(state);
  return "<span class=\"bad\">" + escaped(state) + "</span>";
}

std::string marked_level_cell(const ComparedRuns& runs, const Json& row) {
  const double mine = number_in(row, "level_s");
  if (!std::isfinite(mine)) return "<span class=\"soft\">never</span>";
  double fastest = mine;
  for (const ComparedRun& run : runs.runs)
    fastest = std::fmin(fastest, number_in(run.row, "level_s"));
  const std::string text = format_seconds(mine);
  return mine <= fastest ? "<b>" + text + "</b>" : text;
}

// Columns in which no run has anything.
void drop_empty(std::vector<std::string>& head, std::vector<std::vector<std::string>>& rows) {
  for (std::size_t i = head.size(); i-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (std::any_of(rows.begin(), rows.end(), [i](const auto& row) { return !row[i].empty(); }))
      continue;
    head.erase(head.begin() + at);
    for (auto& row : rows) row.erase(row.begin() + at);
  }
}

void add_table(Page& page, const ComparedRuns& runs) {
  const train::MetricInfo* metric = runs.metric();
  std::vector<std::string> head{"run", "state"};
  if (metric != nullptr)
    head.insert(head.end(), {"best " + escaped(metric->title), "last", "last, of training data"});
  if (runs.level) head.push_back("to " + level_text(metric, *runs.level));
  head.insert(head.end(),
              {"training", "samples/s", "staleness", "used twice", "cores", "pushed", "fetched"});
  std::vector<std::vector<std::string>> rows;
  for (const ComparedRun& run : runs.runs) {
    const Json& row = run.row;
    const auto at = [&row](const char* key) { return number_in(row, key); };
    std::vector<std::string> cells{label_cell(runs, run), state_cell(row.value("state", ""))};
    for (const char* key : {"best", "last", "last_of_training"}) {
      if (metric != nullptr)
        cells.push_back(std::isfinite(at(key)) ? train::metric_text(*metric, at(key)) : "");
    }
    if (runs.level) cells.push_back(marked_level_cell(runs, row));
    cells.insert(cells.end(),
                 {seconds_text(at("training_s")), number_cell(at("samples_per_s")),
                  formatted("%.2f", at("staleness_mean")),
                  at("used_twice") > 0 ? count_text(at("used_twice")) : "", cores_cell(row),
                  rate_text(at("pushed_bytes_per_s")), rate_text(at("fetched_bytes_per_s"))});
    rows.push_back(std::move(cells));
  }
  drop_empty(head, rows);
  page.add(train::table(head, rows));
  page.add(
      "<p class=\"soft\">Training: without the evaluations that held it up. Cores: processor "
      "seconds of all processes of a run over its time, of the threads that train, as far as there "
      "are cores for them.</p>\n");
}

// Of the first run that says it.
void add_facts(Page& page, const ComparedRuns& runs) {
  const auto text = [&](const char* key) {
    for (const ComparedRun& run : runs.runs) {
      if (const std::string found = run.record.text(key); !found.empty()) return escaped(found);
    }
    return std::string();
  };
  const auto number = [&](const char* key) {
    for (const ComparedRun& run : runs.runs) {
      if (const double found = run.record.number(key); found > 0) return count_text(found);
    }
    return std::string();
  };
  page.add(train::facts({{"model", text("model")},
                         {"parameters", number("parameters")},
                         {"training samples", number("training_samples")},
                         {"validation samples", number("validation_samples")},
                         {"processor", text("processor")},
                         {"version", text("version")}}));
}

// Its folder and what has to be there for its strategy are no settings of a run.
bool tells(const train::RecipeChange& change, const Arm& arm) {
  if (change.key == "output.folder" || change.key == "model.weights") return false;
  if (change.theirs.empty()) return false;
  return has_servers(arm.method) || !change.mine.empty();
}

void add_settings(Page& page, const Comparison& comparison, const ComparedRuns& runs) {
  const std::string recipe = train::print_recipe(comparison.recipe, false);
  std::string list;
  for (const ComparedRun& run : runs.runs) {
    std::string settings;
    for (const train::RecipeChange& change :
         train::recipe_changes(recipe, train::print_recipe(run.arm->recipe, false))) {
      if (!tells(change, *run.arm)) continue;
      settings +=
          (settings.empty() ? "" : ", ") + escaped(change.key) + " = " + escaped(change.theirs);
    }
    if (run.arm->method == Method::sync)
      settings += (settings.empty() ? "" : ", ") + std::to_string(run.arm->processes) + " ranks";
    list += "<li>" + label(runs, run) + ": " + settings + " <span class=\"soft\">" +
            escaped(run.arm->name) + "</span></li>\n";
  }
  page.add(
      "<h2>What they are</h2>\n<p class=\"soft\">What each has that the recipe has not, and "
      "its folder.</p>\n<ul>" +
      list + "</ul>\n<details><summary>The recipe</summary><pre>" + escaped(recipe) +
      "</pre></details>\n");
}

void add_complaints(Page& page, const ComparedRuns& runs) {
  std::string list;
  for (const ComparedRun& run : runs.runs) {
    const std::string complaint = end_of(run.row).complaint;
    if (!complaint.empty())
      list += "<li>" + escaped(run.arm->name) + ": " + escaped(complaint) + "</li>\n";
  }
  if (!list.empty()) page.add("<ul>" + list + "</ul>\n");
}

}  // namespace

std::string make_comparison_page(const Comparison& comparison, const ComparedRuns& runs,
                                 const Projection& projection) {
  const std::string title = escaped(comparison.recipe.name) + ": methods compared";
  Page page(kComparisonPage, title);
  page.add("<h1>" + title + "</h1>\n<p class=\"soft\">" + train::utc_now() + "; " +
           std::to_string(runs.runs.size()) + (runs.runs.size() == 1 ? " run" : " runs") +
           ", one after the other</p>\n");
  add_facts(page, runs);
  std::string notes;
  for (const std::string& note : comparison.notes) notes += "<li>" + escaped(note) + "</li>\n";
  if (!notes.empty()) page.add("<ul>" + notes + "</ul>\n");
  add_table(page, runs);
  add_complaints(page, runs);
  page.add(
      "<h2>Against time of training</h2>\n<p class=\"soft\">Figure 4 of Dean et al. 2012. "
      "The more replicas, the wider the line.</p>\n");
  page.begin_row();
  add_curves(page, runs);
  add_curves_by_method(page, runs);
  page.end_row();
  if (runs.level) {
    page.add("<h2>Time to " + level_text(runs.metric(), *runs.level) + "</h2>\n");
    add_times(page, runs);
  }
  add_projection(page, projection);
  add_settings(page, comparison, runs);
  return page.finish();
}

}  // namespace convoy::cli
