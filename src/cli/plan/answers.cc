#include "cli/plan/answers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/toml_text.h"
#include "cli/plan/numbers.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

template <class Point, class Name>
std::string first_to_last(const std::vector<Point>& table, const Name& name) {
  const std::string first = format_seconds(table.front().seconds) + " " + name(table.front());
  if (table.size() == 1) return first;
  return first + " to " + format_seconds(table.back().seconds) + " " + name(table.back());
}

// Where the times of communication are of other workers, or of other shares of a batch.
void warn_of_communication(const plan::PlanPoints& points, plan::BatchChoice& choice) {
  const std::int64_t count = choice.workers;
  std::set<std::int64_t> timed;
  double least = 0, most = 0;  // shares
  std::int64_t nearest = 0;
  for (const plan::CommunicationSample& sample : points.communication) {
    timed.insert(sample.workers);
    if (sample.batch == 0 || sample.workers > count || sample.workers < nearest) continue;
    const double share = static_cast<double>(sample.batch) / static_cast<double>(sample.workers);
    const bool first = sample.workers != nearest;
    nearest = sample.workers;
    least = first ? share : std::min(least, share);
    most = first ? share : std::max(most, share);
  }
  if (timed.empty() || count == 1) return;
  if (count > *timed.rbegin()) {
    choice.warnings.push_back(
        "communication was measured with " + std::to_string(*timed.rbegin()) +
        " workers; that of " + std::to_string(count) + " is what its model makes of that" +
        (timed.size() > 1 ? ""
                          : ", which is that it takes as long between any number: with one number "
                            "of workers nothing tells how it grows"));
  }
  constexpr double kFar = 4;
  const double chosen = static_cast<double>(choice.batch) / static_cast<double>(count);
  if (least == 0 || std::max(chosen / most, least / chosen) <= kFar) return;
  choice.warnings.push_back("communication was timed with " + short_text(least) +
                            (most > least ? " to " + short_text(most) : "") +
                            " samples for each worker, and batch " + std::to_string(choice.batch) +
                            " gives each of " + std::to_string(count) + " " + short_text(chosen) +
                            ": computation hides another part of it then; `convoy plan check` says "
                            "how long an update takes");
}

}  // namespace

PlannedMachine fit_machine(const plan::PlanPoints& points) {
  PlannedMachine result;
  result.compute = plan::fit_compute(points.times);
  constexpr std::size_t kFewest = 2;
  if (points.communication.size() >= kFewest) {
    result.communication =
        plan::fit_communication(points.communication, points.times, *result.compute);
    result.machine = plan::measured_machine(*result.compute, *result.communication);
  } else {
    result.machine = plan::measured_machine(*result.compute);
  }
  return result;
}

Answers answer(const plan::PlanPoints& points, const PlannedMachine& machine,
               const std::vector<std::int64_t>& workers, std::int64_t largest) {
  Answers answers{points.header.metric, machine, {}, {}};
  for (const double level : points.header.targets) {
    try {
      LevelAnswer one{level, plan::fit_updates(points.updates(level)), {}};
      const std::string which = points.header.metric + " " + shortest(level) + ": ";
      std::vector<Answers::Without> without;
      for (const std::int64_t count : workers) {
        try {
          one.choices.push_back(plan::choose_batch(one.updates, machine.machine, count, largest));
        } catch (const UsageError& error) {
          without.push_back(
              {level, count, which + std::to_string(count) + " workers: " + error.what()});
          continue;
        }
        if (machine.communication) warn_of_communication(points, one.choices.back());
      }
      if (!one.choices.empty()) answers.levels.push_back(std::move(one));
      answers.without.insert(answers.without.end(), without.begin(), without.end());
    } catch (const UsageError& error) {
      answers.without.push_back(
          {level, 0, points.header.metric + " " + shortest(level) + ": " + error.what()});
    }
  }
  return answers;
}

void add_warning(Answers& answers, std::int64_t workers, const std::string& warning) {
  for (LevelAnswer& level : answers.levels) {
    for (plan::BatchChoice& choice : level.choices) {
      if (choice.workers >= workers) choice.warnings.push_back(warning);
    }
  }
}

const plan::BatchChoice& soonest(const LevelAnswer& level) {
  return *std::min_element(level.choices.begin(), level.choices.end(),
                           [](const plan::BatchChoice& a, const plan::BatchChoice& b) {
                             return std::pair(a.seconds.value, a.workers) <
                                    std::pair(b.seconds.value, b.workers);
                           });
}

std::string table_text(const std::vector<plan::ComputePoint>& table) {
  return first_to_last(table, [](const plan::ComputePoint& point) {
    return "for " + std::to_string(point.samples) + (point.samples == 1 ? " sample" : " samples");
  });
}

std::string contention_text(const PlannedMachine& machine,
                            std::string (*text)(const plan::Estimate&)) {
  std::string all;
  const auto add = [&all](std::int64_t workers, const std::string& part) {
    all += (all.empty() ? "" : ", ") + part + " with " + std::to_string(workers) + " workers";
  };
  constexpr double kPercent = 100;
  const auto percent = [&](const plan::Estimate& part) {
    return text(
        {kPercent * part.value, {kPercent * part.interval.low, kPercent * part.interval.high}});
  };
  if (machine.communication) {
    for (const plan::ContentionFit& one : machine.communication->contention)
      add(one.workers, percent(one.part));
    return all;
  }
  for (const plan::ContentionPoint& one : machine.machine.machine.contention)
    add(one.workers, short_text(kPercent * one.part) + "%");
  return all;
}

std::string table_text(const plan::Communication& communication) {
  return first_to_last(communication.table, [](const plan::CommunicationPoint& point) {
    return "between " + std::to_string(point.workers) + " workers";
  });
}

}  // namespace convoy::cli
