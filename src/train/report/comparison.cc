// What only several runs have.
#include <algorithm>
#include <cmath>
#include <optional>

#include "convoy/train/server_job.h"
#include "train/report/curve.h"
#include "train/report/figures.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

using Runs = std::vector<RunRecord>;

std::string label(const Runs& runs, std::size_t i) {
  return "<span class=\"key\" style=\"margin:0;color:inherit\"><i style=\"background:var(" +
         Color::series(i).variable() + ")\"></i>" + escaped(runs[i].label) + "</span>";
}

std::string level_text(const MetricInfo& metric, double level) {
  char text[48];
  const char* sign = metric.higher_is_better ? "≥" : "≤";
  if (metric.percent)
    std::snprintf(text, sizeof text, "%s %.4g%%", sign, 100 * level);
  else
    std::snprintf(text, sizeof text, "%s %.4g", sign, level);
  return text;
}

std::vector<std::string> row_of_level(const Levels& levels, std::size_t level, std::size_t runs) {
  std::vector<std::string> row{level_text(levels.metric, levels.levels[level])};
  const LevelTime* times = levels.times.data() + level * runs;
  double fastest = std::nan("");
  for (std::size_t i = 0; i < runs; ++i) fastest = std::fmin(fastest, times[i].elapsed_s);
  for (std::size_t i = 0; i < runs; ++i) {
    const LevelTime& at = times[i];
    if (at.step < 0) {
      row.emplace_back("<span class=\"soft\">–</span>");
      continue;
    }
    std::string text = std::isfinite(at.elapsed_s) ? time_text(at.elapsed_s) : "";
    if (at.elapsed_s <= fastest) text = "<b>" + text + "</b>";
    row.push_back(text + " <span class=\"soft\">step " + count_text(static_cast<double>(at.step)) +
                  "</span>");
  }
  return row;
}

bool all_same(const std::vector<SpeedUp>& group, double (*value)(const SpeedUp&)) {
  return std::all_of(group.begin(), group.end(), [&](const SpeedUp& one) {
    return std::fabs(value(one) - value(group.front())) < 1e-9;
  });
}

std::string kind_of(const std::vector<SpeedUp>& group) {
  std::string kind = "batches differ";
  if (all_same(group, [](const SpeedUp& one) { return one.batch; }))
    kind = "the same batch on all of them (strong scaling)";
  else if (all_same(group, [](const SpeedUp& one) { return one.batch / one.ranks; }))
    kind = "the same batch on each rank (weak scaling)";
  if (all_same(group, [](const SpeedUp& one) { return one.threads_per_rank; })) return kind;
  if (all_same(group, [](const SpeedUp& one) { return one.ranks * one.threads_per_rank; }))
    return kind +
           ". All runs have the same number of threads, shared out among more or fewer ranks: on a "
           "processor no speed-up is to be expected";
  return kind +
         ". Ranks have different numbers of threads: the ideal counts ranks, and not what each can "
         "do";
}

// Those of its runs, each once, in the order of ranks.
std::vector<std::string> strategies_of(const Runs& runs, const std::vector<SpeedUp>& group) {
  std::vector<std::string> strategies;
  for (const SpeedUp& one : group) {
    const std::string strategy = runs[one.run].text("strategy");
    if (std::find(strategies.begin(), strategies.end(), strategy) == strategies.end())
      strategies.push_back(strategy);
  }
  return strategies;
}

// A curve for each strategy, against the same run.
Plot scaling_plot(const Runs& runs, const std::vector<SpeedUp>& group,
                  const std::vector<std::string>& strategies, bool efficiency) {
  const double base = group.front().ranks, most = group.back().ranks;
  Plot plot{.description = efficiency ? "efficiency over ranks" : "speed-up over ranks",
            .x_label = "ranks",
            .x_least = 0,
            .x_most = most + 0.5,
            .y_least = 0,
            .y_most = {},
            .whole_x = most <= 16,
            .marks = {},
            .series = {}};
  const double ideal = efficiency ? 100 : most / base;
  plot.y_most = 1.08 * ideal;
  plot.series.push_back({.color = Color::ideal(),
                         .x = {base, most},
                         .y = {efficiency ? 100.0 : 1.0, ideal},
                         .y2 = {},
                         .dashed = true});
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    Series measured{.style = Series::Style::line_and_points,
                    .color = Color::series(i),
                    .x = {},
                    .y = {},
                    .y2 = {}};
    const auto is_one = [&](const SpeedUp& one) {
      return runs[one.run].text("strategy") == strategies[i];
    };
    for (const SpeedUp& one : group) {
      if (!is_one(one) || (!measured.x.empty() && measured.x.back() == one.ranks)) continue;
      std::vector<double> all;  // on as many ranks
      for (const SpeedUp& other : group) {
        if (is_one(other) && other.ranks == one.ranks)
          all.push_back(efficiency ? 100 * other.efficiency : other.speed_up);
      }
      measured.x.push_back(one.ranks);
      measured.y.push_back(median_of(std::move(all)));
      plot.y_most = std::max(*plot.y_most, 1.08 * measured.y.back());
    }
    plot.series.push_back(std::move(measured));
  }
  return plot;
}

std::string figure(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// "hybrid, 2 × 4" where ranks have parts of a network. Of a job around a parameter server these are
// its replicas: the rows' ranks are the evaluator's, which trains nothing.
std::string strategy_of(const RunRecord& run) {
  const double partitions = run.number("partitions");
  std::string text = escaped(run.text("strategy"));
  if (!(partitions > 1)) return text;
  std::string replicas = replicas_of(run);
  if (!is_server_job(run.text("strategy")) && run.number("ranks") > 0)
    replicas = count_text(run.number("ranks") / partitions);
  if (!replicas.empty()) text += ", " + replicas + " × " + count_text(partitions);
  return text;
}

std::string ranks_of(const RunRecord& run) {
  const std::string replicas = replicas_of(run);
  if (replicas.empty()) return count_text(run.number("ranks"));
  return replicas + (replicas == "1" ? " replica" : " replicas");
}

}  // namespace

void add_overview(Page& page, const Runs& runs) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunRecord& run = runs[i];
    const EvaluationRecord* best = best_evaluation(run);
    const MetricInfo* metric = run.metric(run.best);
    const double rate = usual_rate(run);
    rows.push_back({label(runs, i), state_of(run), escaped(run.text("model")), strategy_of(run),
                    ranks_of(run), count_text(run.number("batch")),
                    run.steps.epoch.empty() ? "" : number_text(run.steps.epoch.back()),
                    run.elapsed_s() > 0 ? time_text(run.elapsed_s()) : "",
                    std::isfinite(rate) ? number_text(rate) + " " + escaped(run.unit) + "/s" : "",
                    best == nullptr ? ""
                                    : escaped(metric->title) + " " +
                                          metric_text(*metric, value_of(*best, metric->name))});
  }
  page.add(table({"run", "state", "model", "strategy", "ranks", "batch", "epochs", "time",
                  "throughput", "best"},
                 rows));
}

void add_times_to_levels(Page& page, const Runs& runs) {
  const std::optional<Levels> levels = times_to_levels(runs);
  if (!levels) return;
  const std::string title = escaped(levels->metric.title);
  std::vector<std::string> head{title};
  for (std::size_t i = 0; i < runs.size(); ++i) head.push_back(label(runs, i));
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < levels->levels.size(); ++i)
    rows.push_back(row_of_level(*levels, i, runs.size()));
  page.add("<h2>Time to " + title +
           "</h2>\n<p class=\"soft\">Time of training "
           "until the first evaluation that was as good; the fastest is bold.</p>\n" +
           table(head, rows));
}

void add_scaling(Page& page, const Runs& runs) {
  for (const std::vector<SpeedUp>& group : speed_ups(runs)) {
    const double base = group.front().ranks;
    page.add("<h2>Scaling of " + escaped(runs[group.front().run].text("model")) +
             "</h2>\n<p class=\"soft\">Throughput against that on " + count_text(base) +
             (base == 1 ? " rank; " : " ranks; ") + kind_of(group) + ".</p>\n");
    const std::vector<std::string> strategies = strategies_of(runs, group);
    std::vector<Legend> legend;
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      legend.push_back({Color::series(i), strategies.size() == 1 || strategies[i].empty()
                                              ? "measured"
                                              : escaped(strategies[i])});
    }
    legend.push_back({Color::ideal(), "ideal"});
    page.begin_row();
    for (const bool efficiency : {false, true}) {
      page.picture(efficiency ? "Efficiency, %" : "Speed-up", legend,
                   scaling_plot(runs, group, strategies, efficiency));
    }
    page.end_row();
    std::vector<std::vector<std::string>> rows;
    for (const SpeedUp& one : group) {
      rows.push_back({label(runs, one.run), strategy_of(runs[one.run]), count_text(one.ranks),
                      one.threads_per_rank > 0 ? count_text(one.threads_per_rank) : "",
                      count_text(one.batch),
                      number_text(one.rate) + " " + escaped(runs[one.run].unit) + "/s",
                      figure("%.2f", one.speed_up), figure("%.2f", one.ideal),
                      figure("%.0f%%", 100 * one.efficiency)});
    }
    page.add(table({"run", "strategy", "ranks", "threads of each", "batch", "throughput",
                    "speed-up", "ideal", "efficiency"},
                   rows));
  }
}

}  // namespace convoy::train
