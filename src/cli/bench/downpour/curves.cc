// Figure 4.
#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/bench/downpour/pictures.h"
#include "cli/drawing.h"
#include "train/report/curve.h"
#include "train/report/figures.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using train::Legend;
using train::Page;

constexpr std::size_t kPieces = 60;  // of a curve that scatters

struct Curve {
  const ComparedRun* run = nullptr;
  std::vector<double> seconds, values;
};

double scale_of(const ComparedRuns& runs) {
  const train::MetricInfo* metric = runs.metric();
  return metric != nullptr && metric->percent ? 100 : 1;
}

// Of the metric, on data.validation or on a part of data.train.
std::vector<Curve> metric_curves(const ComparedRuns& runs, bool of_training = false) {
  std::vector<Curve> curves;
  const train::MetricInfo* metric = of_training ? runs.metric_of_training() : runs.metric();
  const std::optional<double> start = of_training ? runs.start_of_training : runs.start;
  if (metric == nullptr) return curves;
  for (const ComparedRun& run : runs.runs) {
    Curve curve{&run, {}, {}};
    if (start) {
      curve.seconds.push_back(0);
      curve.values.push_back(scale_of(runs) * *start);
    }
    for (const double seconds : training_seconds(*run.arm, run.record))
      curve.seconds.push_back(seconds);
    for (const train::EvaluationRecord& e : run.record.evaluations)
      curve.values.push_back(scale_of(runs) * train::value_of(e, metric->name));
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<Curve> loss_curves(const ComparedRuns& runs) {
  std::vector<Curve> curves;
  for (const ComparedRun& run : runs.runs) {
    const auto seconds = training_seconds_of_steps(*run.arm, run.record);
    const std::vector<double>& losses = run.record.steps.loss;
    const train::Curve means = train::means(seconds, losses, kPieces);
    if (means.x.empty())
      curves.push_back({&run, seconds, losses});
    else
      curves.push_back({&run, means.x, means.y});
  }
  return curves;
}

TimeUnit unit_of(const std::vector<Curve>& curves) {
  double most = 0;
  for (const Curve& curve : curves) {
    for (const double seconds : curve.seconds) most = std::fmax(most, seconds);
  }
  return time_unit(std::max(most, 1.0));
}

// The more replicas, the wider.
double width_of(const ComparedRuns& runs, const Arm& arm) {
  std::vector<int> numbers;
  for (const ComparedRun& run : runs.runs) {
    if (run.arm->method == arm.method) numbers.push_back(run.arm->replicas);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() < 2) return 1.7;
  const auto place = std::find(numbers.begin(), numbers.end(), arm.replicas) - numbers.begin();
  return 1 + 2.0 * static_cast<double>(place) / static_cast<double>(numbers.size() - 1);
}

Series series_from(const Curve& curve, Color color, double width, const TimeUnit& unit) {
  Series series =
      series_of(curve.seconds.size() <= 40 ? Series::Style::line_and_points : Series::Style::line,
                color, curve.seconds, curve.values);
  for (double& x : series.x) x /= unit.seconds;
  series.width = width;
  return series;
}

// What most runs come to: from the lower quarter of the second halves to the best value, with some
// room. A run that has gone astray is cut off.
void look_closely(Plot& plot, const std::vector<Curve>& curves, bool higher_is_better) {
  const double sign = higher_is_better ? 1 : -1;
  std::vector<double> late;
  double best = kNone;
  for (const Curve& curve : curves) {
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
      const double value = sign * curve.values[i];
      if (!std::isfinite(value)) continue;
      best = std::fmax(best, value);
      if (i >= curve.values.size() / 2) late.push_back(value);
    }
  }
  if (late.empty()) return;
  const auto quarter = late.begin() + static_cast<std::ptrdiff_t>(late.size() / 4);
  std::nth_element(late.begin(), quarter, late.end());
  if (!(best > *quarter)) return;
  const double from = sign * (best - 1.6 * (best - *quarter));
  const double to = sign * (best + 0.1 * (best - *quarter));
  plot.y_least = std::min(from, to);
  plot.y_most = std::max(from, to);
}

void add_level(Plot& plot, const ComparedRuns& runs, double x_most) {
  if (!runs.level) return;
  const double level = scale_of(runs) * *runs.level;
  plot.series.push_back(series_of(Series::Style::line, Color::mark(), {0, x_most}, {level, level},
                                  /*dashed=*/true));
}

// gnuplot draws beyond no axis, but lines to points beyond it: curves are broken there.
void cut_off(Plot& plot) {
  if (!plot.y_least || !plot.y_most) return;
  std::vector<Series> pieces;
  for (const Series& series : plot.series) {
    Series piece = series_of(series.style, series.color, {}, {}, series.dashed);
    piece.width = series.width;
    const Series empty = piece;
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      if (series.y[i] >= *plot.y_least && series.y[i] <= *plot.y_most) {
        piece.x.push_back(series.x[i]);
        piece.y.push_back(series.y[i]);
      } else if (!piece.x.empty()) {
        pieces.push_back(std::exchange(piece, empty));
      }
    }
    if (!piece.x.empty()) pieces.push_back(std::move(piece));
  }
  plot.series = std::move(pieces);
}

double most_of(const Plot& plot) {
  double most = 0;
  for (const Series& series : plot.series) {
    for (const double x : series.x) most = std::fmax(most, x);
  }
  return most;
}

std::vector<Legend> legend_of(const ComparedRuns& runs, bool level) {
  std::vector<Legend> legend;
  for (const Method method : kMethods) {
    std::vector<int> numbers;
    for (const ComparedRun& run : runs.runs) {
      if (run.arm->method == method) numbers.push_back(run.arm->replicas);
    }
    if (numbers.empty()) continue;
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    std::string text = title(method);
    for (std::size_t i = 0; i < numbers.size() && !is_one_worker(method); ++i)
      text += (i == 0 ? ", " : "/") + std::to_string(numbers[i]);
    if (!is_one_worker(method)) text += method == Method::sync ? " workers" : " replicas";
    legend.push_back({color_of(method), text});
  }
  if (level && runs.level) legend.push_back({Color::mark(), "the level"});
  return legend;
}

std::string caption_of(const train::MetricInfo* metric) {
  return train::escaped(metric->title) + (metric->percent ? ", %" : "");
}

}  // namespace

Color color_of(Method method) {
  switch (method) {
    case Method::sgd:
      return Color::series(7);
    case Method::fixed:
      return Color::series(0);
    case Method::adagrad:
      return Color::series(1);
    case Method::sandblaster:
      return Color::series(3);
    case Method::gpu:
      return Color::series(4);
    case Method::sync:
      break;
  }
  return Color::series(2);
}

void add_curves(Page& page, const ComparedRuns& runs) {
  const std::vector<Curve> curves = metric_curves(runs), losses = loss_curves(runs);
  const TimeUnit unit = unit_of(losses);
  const auto plot_of = [&](const std::vector<Curve>& all, const std::string& what,
                           bool logarithmic) {
    Plot plot = blank(what + " against time of training, by method",
                      std::string("time of training, ") + unit.name);
    plot.x_least = 0;
    plot.log_y = logarithmic;
    for (const Curve& curve : all)
      plot.series.push_back(series_from(curve, color_of(curve.run->arm->method),
                                        width_of(runs, *curve.run->arm), unit));
    return plot;
  };
  if (!curves.empty()) {
    Plot all = plot_of(curves, "the metric", false);
    Plot close = all;
    look_closely(close, curves, runs.metric()->higher_is_better);
    cut_off(close);
    for (Plot* plot : {&all, &close}) add_level(*plot, runs, most_of(all));
    page.picture(caption_of(runs.metric()), legend_of(runs, true), std::move(all));
    page.picture("What they come to: " + caption_of(runs.metric()), legend_of(runs, true),
                 std::move(close));
  }
  const std::vector<Curve> of_training = metric_curves(runs, true);
  if (!of_training.empty()) {
    page.picture(caption_of(runs.metric_of_training()), legend_of(runs, false),
                 plot_of(of_training, "the metric of training data", false));
  }
  page.picture("Loss of training", legend_of(runs, false), plot_of(losses, "the loss", true));
}

void add_curves_by_method(Page& page, const ComparedRuns& runs) {
  const std::vector<Curve> curves = metric_curves(runs);
  if (curves.empty()) return;
  const TimeUnit unit = unit_of(loss_curves(runs));
  for (const Method method : kMethods) {
    std::vector<const Curve*> own;
    for (const Curve& curve : curves) {
      if (curve.run->arm->method == method) own.push_back(&curve);
    }
    if (own.size() < 2) continue;
    Plot plot = blank(std::string("the metric against time of training: ") + title(method),
                      std::string("time of training, ") + unit.name);
    plot.x_least = 0;
    look_closely(plot, curves, runs.metric()->higher_is_better);
    std::vector<Legend> legend;
    for (std::size_t i = 0; i < own.size(); ++i) {
      plot.series.push_back(series_from(*own[i], Color::series(i), 1.6, unit));
      legend.push_back({Color::series(i), told_apart(*own[i]->run->arm, runs.arms())});
    }
    cut_off(plot);
    add_level(plot, runs, most_of(plot));
    page.picture(std::string(title(method)) + ": " + caption_of(runs.metric()), legend,
                 std::move(plot));
  }
}

}  // namespace convoy::cli
