// Curves over steps, epochs and time.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "convoy/train/server_job.h"
#include "train/report/axes.h"
#include "train/report/curve.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

constexpr std::size_t kPieces = 320, kLeastPieces = 40, kMeans = 110, kMostMarks = 60;

using Runs = std::vector<RunRecord>;
using Values = std::function<const std::vector<double>&(const RunRecord&)>;

std::vector<Legend> legend_of(const Runs& runs) {
  std::vector<Legend> legend;
  if (runs.size() == 1) return legend;
  for (std::size_t i = 0; i < runs.size(); ++i)
    legend.push_back({Color::series(i), escaped(runs[i].label)});
  return legend;
}

// The least and the greatest y; nothing without points.
std::optional<std::pair<double, double>> range_of(const Plot& plot) {
  std::optional<std::pair<double, double>> range;
  for (const Series& s : plot.series) {
    for (const double y : s.y) {
      if (!std::isfinite(y)) continue;
      if (!range) range.emplace(y, y);
      range->first = std::min(range->first, y);
      range->second = std::max(range->second, y);
    }
  }
  return range;
}

// So that a thousandth of a percentage point doesn't fill a picture.
void widen(Plot& plot) {
  constexpr double kAll = 100, kLeast = 2;
  const auto range = range_of(plot);
  if (!range || range->second - range->first >= kLeast) return;
  plot.y_most = std::min(kAll, std::floor(range->second) + kLeast / 2);
  plot.y_least = std::min(std::floor(range->first), *plot.y_most - kLeast / 2);
}

// Whether differences are told better by a logarithm.
void choose_logarithm(Plot& plot) {
  constexpr double kSpan = 20, kRoom = 1.2;
  const auto range = range_of(plot);
  if (!range || range->first <= 0 || range->second <= kSpan * range->first) return;
  plot.log_y = true;
  plot.y_least = range->first / kRoom;
  plot.y_most = range->second * kRoom;
}

void add_steps(Plot& plot, const Axis& axis, const Runs& runs, const Values& values) {
  const std::size_t pieces = std::max(kLeastPieces, kPieces / runs.size());
  std::vector<Series> strong;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::vector<double> x = axis.of_steps(runs[i]);
    Curve all = thin(x, values(runs[i]), pieces);
    Curve course = means(x, values(runs[i]), std::min(kMeans, std::max(kLeastPieces, pieces / 3)));
    const bool both = !course.x.empty();
    plot.series.push_back({.color = both ? Color::pale(i) : Color::series(i),
                           .x = std::move(all.x),
                           .y = std::move(all.y),
                           .y2 = {},
                           .width = both ? 1.0 : 1.6,
                           .dashed = !both && i >= 8});
    if (both)
      strong.push_back({.color = Color::series(i),
                        .x = std::move(course.x),
                        .y = std::move(course.y),
                        .y2 = {},
                        .width = 1.7,
                        .dashed = i >= 8});
  }
  for (Series& series : strong) plot.series.push_back(std::move(series));
}

Series evaluations_of(const Axis& axis, const RunRecord& run, const MetricInfo& metric,
                      std::size_t color) {
  std::vector<double> x, y;
  for (const EvaluationRecord& evaluation : run.evaluations) {
    const auto value = evaluation.metrics.find(metric.name);
    if (value == evaluation.metrics.end()) continue;
    x.push_back(axis.of_evaluation(run, evaluation));
    y.push_back(metric.percent ? 100 * value->second : value->second);
  }
  Curve curve = thin(x, y, kPieces);
  return {.style = curve.x.size() > 60 ? Series::Style::line : Series::Style::line_and_points,
          .color = Color::series(color),
          .x = std::move(curve.x),
          .y = std::move(curve.y),
          .y2 = {}};
}

template <class Records>
void add_marks(Plot& plot, const Axis& axis, const RunRecord& run, const Records& records,
               Mark::Where where, Color color) {
  const std::size_t every = records.size() / kMostMarks + 1;
  for (std::size_t i = 0; i < records.size(); i += every) {
    const double x = axis.at(run, records[i].step);
    if (std::isfinite(x)) plot.marks.push_back({x, where, color});
  }
}

void mark_events(Plot& plot, const Axis& axis, const RunRecord& run) {
  add_marks(plot, axis, run, run.checkpoints, Mark::Where::bottom, Color::written());
  add_marks(plot, axis, run, run.evaluations, Mark::Where::top, Color::series(1));
  for (const RunPart& part : run.parts) {
    const double x = axis.at(run, part.resumed_at);
    if (part.resumed_at > 0 && std::isfinite(x))
      plot.marks.push_back({x, Mark::Where::all, Color::ideal()});
  }
}

// Calls fill(plot, axis) for each axis that the runs have. The caption is no HTML.
void over_all(Page& page, const std::string& caption, const std::vector<Legend>& legend,
              const Runs& runs, const std::function<void(Plot&, const Axis&)>& fill,
              bool may_be_logarithmic) {
  std::vector<std::pair<Over, Plot>> plots;
  for (const Over over : kOver) {
    const Axis axis(over, runs);
    if (!axis.known()) continue;
    Plot plot{.description = caption + " over " + axis.label(),
              .x_label = axis.label(),
              .x_least = 0,
              .x_most = axis.most(),
              .y_least = {},
              .y_most = {},
              .marks = {},
              .series = {}};
    fill(plot, axis);
    if (may_be_logarithmic) choose_logarithm(plot);
    plots.emplace_back(over, std::move(plot));
  }
  page.picture(escaped(caption), legend, std::move(plots));
}

void add_loss(Page& page, const Runs& runs) {
  std::vector<Legend> legend = legend_of(runs);
  const MetricInfo* loss = runs.front().metric("loss");
  const bool one = runs.size() == 1;
  if (one) {
    legend.push_back({Color::series(0), "training"});
    if (loss != nullptr) legend.push_back({Color::series(1), evaluated_on(runs.front())});
    legend.push_back({Color::written(), "checkpoints"});
    if (runs.front().parts.size() > 1) legend.push_back({Color::ideal(), "resumed"});
  }
  over_all(
      page, one ? "Loss" : "Training loss", legend, runs,
      [&](Plot& plot, const Axis& axis) {
        add_steps(
            plot, axis, runs, [](const RunRecord& r) -> const auto& { return r.steps.loss; });
        if (!one) return;
        if (loss != nullptr) plot.series.push_back(evaluations_of(axis, runs.front(), *loss, 1));
        mark_events(plot, axis, runs.front());
      },
      true);
}

std::string caption_of(const RunRecord& run, const MetricInfo& metric) {
  std::string text = evaluated_on(run);
  text.front() = static_cast<char>(std::toupper(text.front()));
  return text + " " + metric.title + (metric.percent ? ", %" : "");
}

void add_metrics(Page& page, const Runs& runs) {
  std::vector<MetricInfo> metrics;
  for (const RunRecord& run : runs) {
    for (const MetricInfo& metric : run.metrics) {
      const bool there =
          std::any_of(metrics.begin(), metrics.end(),
                      [&metric](const MetricInfo& other) { return other.name == metric.name; });
      // One run's validation loss stands beside its training loss.
      if (!there && (runs.size() > 1 || metric.name != "loss")) metrics.push_back(metric);
    }
  }
  for (const MetricInfo& metric : metrics) {
    over_all(
        page, caption_of(runs.front(), metric), legend_of(runs), runs,
        [&](Plot& plot, const Axis& axis) {
          for (std::size_t i = 0; i < runs.size(); ++i)
            plot.series.push_back(evaluations_of(axis, runs[i], metric, i));
          if (metric.percent) widen(plot);
        },
        !metric.percent);
  }
}

// What a batch optimization has in its place is how far an iteration went along its direction.
std::string rate_caption(const Runs& runs) {
  const auto batch = [](const RunRecord& run) { return run.text("strategy") == kSandblaster; };
  const auto all = static_cast<std::size_t>(std::count_if(runs.begin(), runs.end(), batch));
  if (all == 0) return "Learning rate";
  return all == runs.size() ? "Length of a step" : "Learning rate, or length of a step";
}

// Of runs that have such a number.
void add_if_there(Page& page, const std::string& caption, const Runs& runs, const Values& values) {
  const bool there = std::any_of(runs.begin(), runs.end(), [&values](const RunRecord& run) {
    const std::vector<double>& column = values(run);
    return std::any_of(column.begin(), column.end(), [](double y) { return std::isfinite(y); });
  });
  if (!there) return;
  over_all(
      page, caption, legend_of(runs), runs,
      [&](Plot& plot, const Axis& axis) {
        plot.y_least = 0;
        add_steps(plot, axis, runs, values);
      },
      false);
}

}  // namespace

void add_curves(Page& page, const Runs& runs) {
  page.begin_row();
  add_loss(page, runs);
  add_metrics(page, runs);
  over_all(
      page, rate_caption(runs), legend_of(runs), runs,
      [&](Plot& plot, const Axis& axis) {
        plot.y_least = 0;
        add_steps(
            plot, axis, runs,
            [](const RunRecord& r) -> const auto& { return r.steps.learning_rate; });
      },
      false);
  over_all(
      page, "Throughput, " + runs.front().unit + "/s", legend_of(runs), runs,
      [&](Plot& plot, const Axis& axis) {
        plot.y_least = 0;
        add_steps(
            plot, axis, runs, [](const RunRecord& r) -> const auto& { return r.steps.rate; });
      },
      false);
  add_if_there(
      page, "Replicas at work", runs,
      [](const RunRecord& r) -> const auto& { return r.steps.replicas; });
  add_if_there(
      page, "Updates between fetch and push, mean so far", runs,
      [](const RunRecord& r) -> const auto& { return r.steps.staleness; });
  page.end_row();
}

}  // namespace convoy::train
