#include "train/report/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "convoy/train/server_job.h"
#include "train/report/curve.h"
#include "train/report/html.h"

namespace convoy::train {
namespace {

using Runs = std::vector<RunRecord>;

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

bool is_of_same_size(const RunPart& a, const RunPart& b) {
  const auto number = [](const RunPart& part, const char* key) {
    const auto found = part.numbers.find(key);
    return found == part.numbers.end() ? 0 : found->second;
  };
  for (const char* key : {"ranks", "threads_per_rank", "batch"})
    if (number(a, key) != number(b, key)) return false;
  return true;
}

// The first evaluation that is as good; null if none is.
const EvaluationRecord* first_at(const RunRecord& run, const MetricInfo& metric, double level) {
  for (const EvaluationRecord& e : run.evaluations) {
    if (reaches(metric, value_of(e, metric.name), level)) return &e;
  }
  return nullptr;
}

// Round numbers among which the interesting ones of a percentage are.
std::vector<double> percentages() {
  std::vector<double> levels;
  for (int i = 1; i < 90; ++i) levels.push_back(i * 0.01);
  for (int i = 900; i < 990; i += 5) levels.push_back(i * 0.001);
  for (int i = 990; i < 1000; ++i) levels.push_back(i * 0.001);
  return levels;
}

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, std::floor(std::log10(std::fabs(value))) - 2);
  return std::round(value / unit) * unit;
}

// Up to 5, from what the first evaluations had to what the best run reached, the hardest last.
std::vector<double> levels_of(const Runs& runs, const MetricInfo& metric) {
  double from = std::nan(""), best = std::nan(""), worst = std::nan("");
  const auto better = [&metric](double a, double b) {
    return metric.higher_is_better ? std::fmax(a, b) : std::fmin(a, b);
  };
  for (const RunRecord& run : runs) {
    double mine = std::nan("");
    for (const EvaluationRecord& e : run.evaluations) {
      const double value = value_of(e, metric.name);
      if (std::isfinite(value) && std::isnan(mine))
        from = std::isnan(from) ? value : -better(-from, -value);
      mine = better(mine, value);
    }
    best = better(best, mine);
    if (std::isfinite(mine)) worst = std::isnan(worst) ? mine : -better(-worst, -mine);
  }
  if (!std::isfinite(from) || !std::isfinite(best)) return {};
  constexpr int kLevels = 5;
  std::set<double> levels;
  for (int i = 0; i < kLevels; ++i) {
    const double wanted = from + (best - from) * i / (kLevels - 1);
    double level = rounded(wanted);
    if (metric.percent) {
      for (const double round : percentages()) {
        if (metric.higher_is_better ? round <= wanted + 1e-12 : round >= wanted - 1e-12) {
          level = round;
          if (!metric.higher_is_better) break;
        }
      }
    } else if (!reaches(metric, best, level)) {
      level = best;
    }
    levels.insert(level);
  }
  // The hardest that all of the runs reached.
  if (std::isfinite(worst)) levels.insert(metric.percent ? std::floor(worst * 1000) / 1000 : worst);
  std::vector<double> sorted(levels.begin(), levels.end());
  if (!metric.higher_is_better) std::reverse(sorted.begin(), sorted.end());
  return sorted;
}

// Of runs on the same number of ranks.
double rate_at(const std::vector<SpeedUp>& group, double ranks) {
  std::vector<double> rates;
  for (const SpeedUp& one : group) {
    if (one.ranks == ranks) rates.push_back(one.rate);
  }
  return median_of(std::move(rates));
}

}  // namespace

bool reaches(const MetricInfo& metric, double value, double level) {
  return metric.higher_is_better ? value >= level : value <= level;
}

double value_of(const EvaluationRecord& evaluation, const std::string& metric) {
  const auto found = evaluation.metrics.find(metric);
  return found == evaluation.metrics.end() ? kNoFigure : found->second;
}

const EvaluationRecord* best_evaluation(const RunRecord& run) {
  const MetricInfo* metric = run.metric(run.best);
  const EvaluationRecord* best = nullptr;
  if (metric == nullptr) return best;
  const auto value = [metric](const EvaluationRecord& e) { return value_of(e, metric->name); };
  for (const EvaluationRecord& e : run.evaluations) {
    if (!std::isfinite(value(e))) continue;
    if (best == nullptr ||
        (metric->higher_is_better ? value(e) > value(*best) : value(e) < value(*best)))
      best = &e;
  }
  return best;
}

double usual_rate(const RunRecord& run) {
  constexpr double kFirst = 10;  // are slower: memory is new
  std::size_t part = run.parts.size();
  while (part > 0 && is_of_same_size(run.parts[part - 1], run.parts.back())) --part;
  const auto begin_of = [&run](std::size_t p) {
    return p < run.parts.size() ? static_cast<double>(run.parts[p].resumed_at) : 0;
  };
  const double from = begin_of(part);
  std::vector<double> all, warm;
  for (std::size_t i = 0; i < run.steps.step.size(); ++i) {
    const double step = run.steps.step[i];
    if (part > 0 && step <= from) continue;
    while (part + 1 < run.parts.size() && step > begin_of(part + 1)) ++part;
    all.push_back(run.steps.rate[i]);
    if (step > begin_of(part) + kFirst) warm.push_back(run.steps.rate[i]);
  }
  const double rate = median_of(std::move(warm));
  return std::isfinite(rate) ? rate : median_of(std::move(all));
}

std::string ending_of(const RunRecord& run) {
  if (!run.at_work.empty()) return "going_on";
  for (const char* known : {"done", "target", "stopped", "diverged"})
    if (run.end == known) return run.end;
  // A version before wrote this alone.
  return run.target_at >= 0 && run.target_at >= run.last_step() ? "target" : "unknown";
}

double last_loss(const RunRecord& run) {
  const std::vector<double>& all = run.steps.loss;
  const auto last =
      std::find_if(all.rbegin(), all.rend(), [](double loss) { return std::isfinite(loss); });
  return last == all.rend() ? kNoFigure : *last;
}

RunFigures figures_of(const RunRecord& run) {
  RunFigures f;
  f.name = run.label;
  f.folder = run.folder;
  f.state = ending_of(run);
  f.model = run.text("model");
  f.strategy = run.text("strategy");
  f.unit = run.unit;
  f.steps = run.last_step();
  f.planned_steps = run.planned_steps();
  f.parts = static_cast<std::int64_t>(run.parts.size());
  f.epochs = run.steps.epoch.empty() ? kNoFigure : run.steps.epoch.back();
  f.elapsed_s = run.elapsed_s() > 0 ? run.elapsed_s() : kNoFigure;
  f.ranks = run.number("ranks");
  f.threads_per_rank = run.number("threads_per_rank");
  f.batch = run.number("batch");
  f.parameters = run.number("parameters");
  f.training_samples = run.number("training_samples");
  f.validation_samples = run.number("validation_samples");
  f.rate = usual_rate(run);
  f.loss = last_loss(run);
  if (!run.evaluations.empty()) {
    f.evaluated_at = run.evaluations.back().step;
    f.final = run.evaluations.back().metrics;
  }
  f.best = f.best_elapsed_s = kNoFigure;
  const EvaluationRecord* best = best_evaluation(run);
  if (best == nullptr) return f;
  f.best_metric = run.best;
  f.best = value_of(*best, run.best);
  f.best_step = best->step;
  f.best_elapsed_s = best->elapsed_s;
  return f;
}

std::optional<Levels> times_to_levels(const Runs& runs) {
  const auto with = std::find_if(runs.begin(), runs.end(),
                                 [](const RunRecord& run) { return !run.best.empty(); });
  if (with == runs.end()) return std::nullopt;
  Levels found{*with->metric(with->best), {}, {}};
  found.levels = levels_of(runs, found.metric);
  if (found.levels.empty()) return std::nullopt;
  for (const double level : found.levels) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const EvaluationRecord* at = first_at(runs[i], found.metric, level);
      found.times.push_back({found.metric.name, level, i, at == nullptr ? -1 : at->step,
                             at == nullptr ? kNoFigure : at->elapsed_s});
    }
  }
  return found;
}

std::vector<std::vector<SpeedUp>> speed_ups(const Runs& runs) {
  std::map<std::string, std::vector<SpeedUp>> by_network;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFigures f = figures_of(runs[i]);
    // Of a job around a parameter server the ranks are the evaluator's.
    if (!(f.ranks > 0) || !(f.rate > 0) || is_server_job(f.strategy)) continue;
    const std::string what = f.model + "\n" + count_text(f.parameters) + "\n" +
                             runs[i].text("device") + "\n" + runs[i].text("precision") + "\n" +
                             f.unit;
    by_network[what].push_back({.group = 0,
                                .run = i,
                                .ranks = f.ranks,
                                .threads_per_rank = f.threads_per_rank,
                                .batch = f.batch,
                                .rate = f.rate,
                                .speed_up = 0,
                                .ideal = 0,
                                .efficiency = 0});
  }
  std::vector<std::vector<SpeedUp>> groups;
  for (auto& [what, group] : by_network) {
    std::sort(group.begin(), group.end(), [](const SpeedUp& a, const SpeedUp& b) {
      return std::pair(a.ranks, a.run) < std::pair(b.ranks, b.run);
    });
    const double base = group.front().ranks;
    if (base == group.back().ranks) continue;
    const double rate = rate_at(group, base);
    for (SpeedUp& one : group) {
      one.group = groups.size();
      one.speed_up = one.rate / rate;
      one.ideal = one.ranks / base;
      one.efficiency = one.speed_up / one.ideal;
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace convoy::train
