// What a plan's page shows of the machine.
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "cli/plan/drawing.h"
#include "cli/plan/pictures.h"
#include "convoy/plan/hardware.h"

namespace convoy::cli {
namespace {

using train::Legend;
using train::Page;

// The same in every picture.
Color color_of(const std::string& change) {
  const char* known[] = {"processor", "bandwidth", "workers", "latency", "knee", "overhead"};
  const auto found = std::find(std::begin(known), std::end(known), change);
  return Color::series(static_cast<std::size_t>(found - std::begin(known)));
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
  Plot plot = blank_in_halves("seconds of an update against the batch", "batch");
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

  const auto& fitted = report.answers.machine.communication;
  const std::vector<plan::CommunicationSample> exchanges =
      fitted ? fitted->samples : plan::beyond_compute(report.points.communication, times);
  if (exchanges.empty()) return page.end_row();
  double longest = 0;
  std::int64_t last = 2;
  for (const plan::CommunicationSample& sample : exchanges) {
    longest = std::max(longest, sample.seconds);
    last = std::max(last, sample.workers);
  }
  for (const std::int64_t count : workers) last = std::max(last, count);
  const TimeUnit small = time_unit(longest);
  Plot network =
      blank_in_halves("seconds of communication in an update against workers", "workers");
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
  Plot times =
      blank_in_halves("time to the target against workers, for three ways to scale", "workers");
  Plot batches = blank_in_halves("batch against workers, for three ways to scale", "workers");
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
           plan::what_if(law, machine_of(report), choice.workers, factor, report.samples)) {
        Series& curve = curves[row.change];
        curve.x.push_back(factor);
        curve.y.push_back(row.seconds);
        most = std::max(most, row.seconds);
      }
    }
    const TimeUnit unit = time_unit(most);
    Plot plot = blank_in_halves(
        "time to the target at its best batch against how much better a part is", "times as good");
    plot.log_x = true;
    plot.y_least = 0;
    std::vector<Legend> legend;
    for (auto& [change, curve] : curves) {
      curve.style = Series::Style::line_and_points;
      curve.color = color_of(change);
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
