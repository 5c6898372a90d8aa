#include "cli/plan/pictures.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/toml_text.h"
#include "cli/plan/drawing.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using train::Legend;
using train::Page;

std::string name_of(const Answers& answers, double level) {
  return train::escaped(answers.metric) + " " + shortest(level);
}

// Runs at the rate of the envelope that reached the level.
Series single_runs(const plan::PlanPoints& points, const LevelAnswer& level, Color color) {
  Series runs = series_of(Series::Style::points, color, {}, {});
  for (const plan::UpdateRun& run : points.updates(level.level)) {
    for (const plan::EnvelopePoint& point : level.updates.envelope) {
      if (point.batch != run.batch || point.learning_rate != run.learning_rate || !run.reached)
        continue;
      runs.x.push_back(static_cast<double>(run.batch));
      runs.y.push_back(static_cast<double>(run.updates));
    }
  }
  return runs;
}

double law_at(const plan::UpdateLaw& law, double batch) {
  return value_or_none([&] { return plan::updates_to_target(law, batch); });
}

void add_level(const PlanReport& report, const LevelAnswer& level, std::size_t number, Plot& plot) {
  Series runs = single_runs(report.points, level, Color::pale(number));
  Series means = series_of(Series::Style::points, Color::series(number), {}, {});
  for (const plan::EnvelopePoint& point : level.updates.envelope) {
    means.x.push_back(static_cast<double>(point.batch));
    means.y.push_back(point.updates);
  }
  const auto x = spread(smallest_measured(report), largest_measured(report));
  plot.series.push_back(std::move(runs));
  plot.series.push_back(
      series_of(Series::Style::line, Color::series(number), x,
                each(x, [&](double batch) { return law_at(level.updates.law, batch); })));
  plot.series.push_back(std::move(means));
}

constexpr double kAbove = 4;  // times the best time: beyond that nobody wants to know
TimeUnit unit_of(const plan::BatchChoice& choice) {
  return time_unit(kAbove * choice.seconds.value);
}

Plot convergence_plot(const PlanReport& report, const plan::BatchChoice& choice) {
  const plan::UpdateLaw& law = hardest(report).updates.law;
  const plan::Machine& machine = machine_of(report);
  const auto workers = static_cast<double>(choice.workers);
  const auto best = static_cast<double>(choice.batch);
  const TimeUnit unit = unit_of(choice);
  const double low = std::max(workers, std::min(smallest_measured(report), best / 4));
  // Nothing is said of batches beyond those measured where the law is not trusted.
  const double beyond = hardest(report).updates.trusted ? best * 4 : best;
  const double high = std::max(
      std::min(static_cast<double>(report.samples), std::max(largest_measured(report), beyond)),
      2 * low);
  Plot plot =
      blank_in_halves("time to the target against the batch, " + std::to_string(choice.workers) +
                          " workers, with the best batch and its interval",
                      "batch");
  plot.log_x = true;
  plot.x_least = low, plot.x_most = high;
  plot.y_least = 0;
  plot.y_most = kAbove * choice.seconds.value / unit.seconds;
  const plan::Interval& interval = choice.optimum.interval;
  const double from = std::clamp(interval.low, low, high);
  const double to = std::clamp(interval.high, low, high);
  if (from < to) plot.series.push_back(shade(Color::pale(0), from, to, 0, *plot.y_most));
  const auto x = spread(low, high);
  plot.series.push_back(series_of(
      Series::Style::line, Color::series(0), x, each(x, [&](double batch) {
        const double seconds =
            law_at(law, batch) * update_seconds(machine, batch, choice.workers) / unit.seconds;
        return seconds <= *plot.y_most ? seconds : kNone;
      })));
  Series measured = series_of(Series::Style::points, Color::series(1), {}, {});
  for (const plan::EnvelopePoint& point : hardest(report).updates.envelope) {
    const auto batch = static_cast<double>(point.batch);
    const double seconds =
        point.updates * update_seconds(machine, batch, choice.workers) / unit.seconds;
    if (batch < low || !(seconds <= *plot.y_most)) continue;
    measured.x.push_back(batch);
    measured.y.push_back(seconds);
  }
  plot.series.push_back(std::move(measured));
  plot.marks.push_back({.x = best, .where = Mark::Where::all, .color = Color::mark()});
  return plot;
}

}  // namespace

void add_updates_pictures(Page& page, const PlanReport& report) {
  const std::vector<LevelAnswer>& levels = report.answers.levels;
  std::vector<Legend> legend;
  for (std::size_t i = 0; i < levels.size(); ++i)
    legend.push_back({Color::series(i), name_of(report.answers, levels[i].level)});
  for (const bool logarithmic : {true, false}) {
    Plot plot =
        blank_in_halves("updates to each target against the batch, measured and fitted", "batch");
    plot.log_x = plot.log_y = logarithmic;
    if (!logarithmic) plot.x_least = plot.y_least = 0;
    for (std::size_t i = 0; i < levels.size(); ++i) add_level(report, levels[i], i, plot);
    page.picture(logarithmic ? "Updates to the target" : "The same on even scales", legend,
                 std::move(plot));
  }
}

void add_rates_picture(Page& page, const PlanReport& report) {
  // Sum of updates and number of runs that reached the level, by rate and batch.
  std::map<double, std::map<std::int64_t, std::pair<double, int>>> rates;
  for (const plan::UpdateRun& run : report.points.updates(hardest(report).level)) {
    if (!run.reached) continue;
    auto& [sum, count] = rates[run.learning_rate][run.batch];
    sum += static_cast<double>(run.updates);
    ++count;
  }
  if (rates.size() < 2) return;
  Plot plot =
      blank_in_halves("updates to the target against the batch, for each learning rate", "batch");
  plot.log_x = plot.log_y = true;
  std::vector<Legend> legend;
  std::size_t number = 0;
  for (const auto& [rate, batches] : rates) {
    const Color color = Color::series(number++);
    legend.push_back({color, "rate " + shortest(rate)});
    Series means = series_of(Series::Style::line_and_points, color, {}, {});
    for (const auto& [batch, sum] : batches) {
      means.x.push_back(static_cast<double>(batch));
      means.y.push_back(sum.first / sum.second);
    }
    plot.series.push_back(std::move(means));
  }
  const auto x = spread(smallest_measured(report), largest_measured(report));
  plot.series.push_back(series_of(
      Series::Style::line, Color::ideal(), x,
      each(x, [&](double batch) { return law_at(hardest(report).updates.law, batch); }), true));
  legend.push_back({Color::ideal(), "the law"});
  page.picture("Updates to " + name_of(report.answers, hardest(report).level) + ", by rate", legend,
               std::move(plot));
}

void add_convergence_pictures(Page& page, const PlanReport& report) {
  page.begin_row();
  for (const plan::BatchChoice& choice : hardest(report).choices) {
    std::vector<Legend> legend{{Color::series(0), "predicted"},
                               {Color::series(1), "with measured updates"},
                               {Color::mark(), "the batch to use"}};
    const auto& [low, high] = choice.optimum.interval;
    if (low < high) legend.push_back({Color::pale(0), "where M_opt may be"});
    page.picture("Time to the target on " + std::to_string(choice.workers) +
                     (choice.workers == 1 ? " worker, " : " workers, ") + unit_of(choice).name,
                 legend, convergence_plot(report, choice));
  }
  page.end_row();
}

}  // namespace convoy::cli
