#include "cli/plan/pictures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/toml_text.h"
#include "cli/plan/drawing.h"
#include "convoy/base/error.h"
#include "convoy/plan/hardware.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using train::Legend;
using train::Page;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// What a formula says, or nothing where it has nothing to say.
template <class F>
double value_or_none(const F& formula) {
  try {
    return formula();
  } catch (const UsageError&) {
    return kNone;
  }
}

double largest_measured(const PlanReport& report) {
  std::int64_t most = 1;
  for (const plan::PointRun& run : report.points.runs) most = std::max(most, run.batch);
  return static_cast<double>(most);
}

double smallest_measured(const PlanReport& report) {
  double least = static_cast<double>(report.samples);
  for (const plan::PointRun& run : report.points.runs)
    least = std::min(least, static_cast<double>(run.batch));
  return least;
}

std::string name_of(const Answers& answers, double level) {
  return train::escaped(answers.metric) + " " + shortest(level);
}

Plot blank(std::string description, std::string x_label) {
  Plot plot;
  plot.description = std::move(description);
  plot.x_label = std::move(x_label);
  return plot;
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

// Seconds of an update, not counting that samples are whole.
double update_seconds(const plan::Machine& machine, double batch, std::int64_t workers) {
  return value_or_none([&] {
    return plan::compute_seconds(machine, batch / static_cast<double>(workers)) +
           plan::communication_seconds(machine.communication, workers);
  });
}

const LevelAnswer& hardest(const PlanReport& report) { return report.answers.levels.back(); }
const plan::Machine& machine_of(const PlanReport& report) {
  return report.answers.machine.machine.machine;
}

Plot convergence_plot(const PlanReport& report, const plan::BatchChoice& choice) {
  const plan::UpdateLaw& law = hardest(report).updates.law;
  const plan::Machine& machine = machine_of(report);
  const auto workers = static_cast<double>(choice.workers);
  const auto best = static_cast<double>(choice.batch);
  const TimeUnit unit = time_unit(choice.seconds.value);
  const double low = std::max(workers, std::min(smallest_measured(report), best / 4));
  // Nothing is said of batches beyond those measured where the law is not trusted.
  const double beyond = hardest(report).updates.trusted ? best * 4 : best;
  const double high = std::max(
      std::min(static_cast<double>(report.samples), std::max(largest_measured(report), beyond)),
      2 * low);
  Plot plot = blank("time to the target against the batch, " + std::to_string(choice.workers) +
                        " workers, with the best batch and its interval",
                    "batch");
  plot.log_x = true;
  plot.x_least = low, plot.x_most = high;
  plot.y_least = 0;
  constexpr double kAbove = 4;  // times the best: beyond that nobody wants to know
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

// 1, 2, 4, ... as far as the plan's workers go, and at least to 64.
std::vector<std::int64_t> many_workers(const PlanReport& report) {
  std::int64_t most = 64;
  for (const plan::BatchChoice& choice : hardest(report).choices)
    most = std::max(most, choice.workers);
  std::vector<std::int64_t> workers;
  for (std::int64_t p = 1; p <= std::min(most, report.samples); p *= 2) workers.push_back(p);
  return workers;
}

}  // namespace

void add_updates_pictures(Page& page, const PlanReport& report) {
  const std::vector<LevelAnswer>& levels = report.answers.levels;
  std::vector<Legend> legend;
  for (std::size_t i = 0; i < levels.size(); ++i)
    legend.push_back({Color::series(i), name_of(report.answers, levels[i].level)});
  for (const bool logarithmic : {true, false}) {
    Plot plot = blank("updates to each target against the batch, measured and fitted", "batch");
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
  Plot plot = blank("updates to the target against the batch, for each learning rate", "batch");
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

void add_times_pictures(Page& page, const PlanReport& report) {
  const plan::Machine& machine = machine_of(report);
  const auto& times = report.points.times;
  double low = smallest_measured(report), high = largest_measured(report);
  for (const plan::TimeSample& time : times) {
    low = std::min(low, static_cast<double>(time.samples));
    high = std::max(high, static_cast<double>(time.samples));
  }
  std::vector<std::int64_t> workers;
  for (const plan::BatchChoice& choice : hardest(report).choices) workers.push_back(choice.workers);
  double most = 0;
  for (const std::int64_t count : workers)
    most = std::fmax(most, update_seconds(machine, high, count));
  const TimeUnit unit = time_unit(most);
  Plot plot = blank("seconds of an update against the batch", "batch");
  plot.log_x = plot.log_y = true;
  std::vector<Legend> legend;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const double least = std::max(low, static_cast<double>(workers[i]));
    if (least >= high) continue;
    const auto x = spread(least, high);
    plot.series.push_back(
        series_of(Series::Style::line, Color::series(i), x, each(x, [&](double batch) {
                    return update_seconds(machine, batch, workers[i]) / unit.seconds;
                  })));
    legend.push_back({Color::series(i),
                      std::to_string(workers[i]) + (workers[i] == 1 ? " worker" : " workers")});
  }
  std::set<std::size_t> odd;
  if (const auto& fit = report.answers.machine.compute)
    odd.insert(fit->outliers.begin(), fit->outliers.end());
  Series measured = series_of(Series::Style::points, Color::axis(), {}, {});
  Series outliers = series_of(Series::Style::points, Color::mark(), {}, {});
  for (std::size_t i = 0; i < times.size(); ++i) {
    Series& where = odd.contains(i) ? outliers : measured;
    where.x.push_back(static_cast<double>(times[i].samples));
    where.y.push_back(times[i].seconds / unit.seconds);
  }
  if (!measured.x.empty()) legend.push_back({Color::axis(), "measured on one"});
  if (!outliers.x.empty()) legend.push_back({Color::mark(), "far off"});
  plot.series.push_back(std::move(measured));
  plot.series.push_back(std::move(outliers));
  page.begin_row();
  page.picture(std::string("Time of an update, ") + unit.name, legend, std::move(plot));

  const auto& exchanges = report.points.communication;
  if (exchanges.empty()) return page.end_row();
  double longest = 0;
  std::int64_t last = 2;
  for (const plan::CommunicationSample& sample : exchanges) {
    longest = std::max(longest, sample.seconds);
    last = std::max(last, sample.workers);
  }
  for (const std::int64_t count : workers) last = std::max(last, count);
  const TimeUnit small = time_unit(longest);
  Plot network = blank("seconds of communication in an update against workers", "workers");
  network.x_least = 1, network.y_least = 0;
  network.x_most = static_cast<double>(last) + 0.5;
  network.whole_x = last <= 16;
  Series points = series_of(Series::Style::points, Color::axis(), {}, {});
  for (const plan::CommunicationSample& sample : exchanges) {
    points.x.push_back(static_cast<double>(sample.workers));
    points.y.push_back(sample.seconds / small.seconds);
  }
  Series fit = series_of(Series::Style::line_and_points, Color::series(0), {}, {});
  for (std::int64_t p = 2; p <= last; p = last <= 16 ? p + 1 : 2 * p) {
    fit.x.push_back(static_cast<double>(p));
    fit.y.push_back(value_or_none(
        [&] { return plan::communication_seconds(machine.communication, p) / small.seconds; }));
  }
  network.series = {std::move(fit), std::move(points)};
  page.picture(
      std::string("Communication in an update that computation does not hide, ") + small.name,
      {{Color::series(0), std::string(plan::name(machine.communication.kind))},
       {Color::axis(), "measured"}},
      std::move(network));
  page.end_row();
}

void add_convergence_pictures(Page& page, const PlanReport& report) {
  page.begin_row();
  for (const plan::BatchChoice& choice : hardest(report).choices) {
    page.picture("Time to the target on " + std::to_string(choice.workers) +
                     (choice.workers == 1 ? " worker, " : " workers, ") +
                     time_unit(choice.seconds.value).name,
                 {{Color::series(0), "predicted"},
                  {Color::series(1), "with measured updates"},
                  {Color::mark(), "the batch to use"},
                  {Color::pale(0), "where M_opt may be"}},
                 convergence_plot(report, choice));
  }
  page.end_row();
}

void add_scaling_pictures(Page& page, const PlanReport& report) {
  struct Way {
    const char* name;
    Series seconds, batch;
  };
  std::vector<Way> ways;
  for (const char* name :
       {"best batch for each", "strong: the best of one worker", "weak: that for each worker"}) {
    const Color color = Color::series(ways.size());
    ways.push_back({name, series_of(Series::Style::line_and_points, color, {}, {}),
                    series_of(Series::Style::line_and_points, color, {}, {})});
  }
  double most = 0;
  for (const std::int64_t workers : many_workers(report)) {
    try {
      const plan::Scaling one =
          plan::scaling(hardest(report).updates.law, machine_of(report), {workers}, report.samples)
              .front();
      const std::optional<plan::BatchTime> times[] = {one.optimal, one.strong, one.weak};
      for (std::size_t i = 0; i < ways.size(); ++i) {
        if (!times[i]) continue;
        ways[i].seconds.x.push_back(static_cast<double>(workers));
        ways[i].seconds.y.push_back(times[i]->seconds);
        ways[i].batch.x.push_back(static_cast<double>(workers));
        ways[i].batch.y.push_back(static_cast<double>(times[i]->batch));
        most = std::max(most, times[i]->seconds);
      }
    } catch (const UsageError&) {
      break;  // beyond what a table has
    }
  }
  const TimeUnit unit = time_unit(most);
  Plot times = blank("time to the target against workers, for three ways to scale", "workers");
  Plot batches = blank("batch against workers, for three ways to scale", "workers");
  times.log_x = times.log_y = batches.log_x = batches.log_y = true;
  std::vector<Legend> legend;
  for (Way& way : ways) {
    for (double& seconds : way.seconds.y) seconds /= unit.seconds;
    legend.push_back({way.seconds.color, way.name});
    times.series.push_back(std::move(way.seconds));
    batches.series.push_back(std::move(way.batch));
  }
  page.begin_row();
  page.picture(std::string("Time to the target against workers, ") + unit.name, legend,
               std::move(times));
  page.picture("Batch against workers", legend, std::move(batches));
  page.end_row();
}

void add_hardware_pictures(Page& page, const PlanReport& report) {
  const plan::UpdateLaw& law = hardest(report).updates.law;
  page.begin_row();
  for (const plan::BatchChoice& choice : hardest(report).choices) {
    std::map<std::string, Series> curves;
    double most = 0;
    for (const double factor : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0}) {
      for (const plan::WhatIf& row :
           plan::what_if(law, machine_of(report), choice.workers, factor)) {
        Series& curve = curves[row.change];
        curve.x.push_back(factor);
        curve.y.push_back(row.seconds);
        most = std::max(most, row.seconds);
      }
    }
    const TimeUnit unit = time_unit(most);
    Plot plot = blank("time to the target at its best batch against how much better a part is",
                      "times as good");
    plot.log_x = true;
    plot.y_least = 0;
    std::vector<Legend> legend;
    for (auto& [change, curve] : curves) {
      curve.style = Series::Style::line_and_points;
      curve.color = Color::series(legend.size());
      for (double& seconds : curve.y) seconds /= unit.seconds;
      legend.push_back({curve.color, change});
      plot.series.push_back(std::move(curve));
    }
    constexpr double kRoom = 1.08;  // above the largest
    plot.y_most = kRoom * most / unit.seconds;
    page.picture("From " + std::to_string(choice.workers) +
                     (choice.workers == 1 ? " worker, " : " workers, ") + unit.name,
                 legend, std::move(plot));
  }
  page.end_row();
}

}  // namespace convoy::cli
