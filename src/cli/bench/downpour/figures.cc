#include "cli/bench/downpour/figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <utility>

#include "train/report/figures.h"
#include "train/report/parse_row.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;
using train::RunRecord;

Json number_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

// The last values that rows of kind `step` have for these keys, which grow.
Json last_counts(const std::string& metrics) {
  Json counts = Json::object();
  const char* const kKeys[] = {"used_twice", "pushed_bytes", "fetched_bytes"};
  for (const char* key : kKeys) counts[key] = nullptr;
  std::ifstream file(metrics, std::ios::binary);
  train::RowParser parser;
  for (std::string line; std::getline(file, line);) {
    const train::MetricsRow* row = parser.parse(line);
    if (row == nullptr || row->kind != "step") continue;
    for (const auto& [key, value] : row->numbers) {
      if (counts.contains(key)) counts[key] = number_or_null(value);
    }
  }
  return counts;
}

// Before each moment, of evaluations that held training up.
double held_before(const RunRecord& run, double elapsed) {
  double held = 0;
  for (const train::EvaluationRecord& e : run.evaluations) {
    if (e.elapsed_s <= elapsed && std::isfinite(e.time_s)) held += e.time_s;
  }
  return held;
}

Json settings_of(const Arm& arm) {
  const auto count_or_null = [](std::int64_t n) { return n > 0 ? Json(n) : Json(nullptr); };
  return {{"kind", "comparison"},
          {"run", arm.name},
          {"method", name(arm.method)},
          {"replicas", arm.replicas},
          {"n_fetch", count_or_null(arm.n_fetch)},
          {"n_push", count_or_null(arm.n_push)},
          {"learning_rate",
           arm.method == Method::sandblaster ? Json(nullptr) : Json(arm.recipe.optimizer.lr)},
          {"batch", arm.recipe.training.batch},
          {"seed", arm.seed}};
}

void add_end(Json& row, const RunEnd& end) {
  row["state"] = end.state;
  row["complaint"] = end.complaint.empty() ? Json(nullptr) : Json(end.complaint);
  row["hosts"] = end.hosts;
  row["wall_s"] = number_or_null(end.wall_s);
  row["cpu_s"] = number_or_null(end.cpu_s);
}

void add_level(Json& row, const Arm& arm, const RunRecord& run, std::optional<double> level) {
  row["level"] = level ? Json(*level) : Json(nullptr);
  row["level_step"] = row["level_s"] = nullptr;
  const std::ptrdiff_t at = level ? reached_at(run, *level) : -1;
  if (at < 0) return;
  const auto i = static_cast<std::size_t>(at);
  row["level_step"] = run.evaluations[i].step;
  row["level_s"] = number_or_null(training_seconds(arm, run)[i]);
}

}  // namespace

std::vector<double> training_seconds(const Arm& arm, const RunRecord& run) {
  std::vector<double> seconds;
  for (const train::EvaluationRecord& e : run.evaluations) {
    const double own = std::isfinite(e.time_s) ? e.time_s : 0;
    const double held = has_servers(arm.method) ? own : held_before(run, e.elapsed_s);
    seconds.push_back(std::max(0.0, e.elapsed_s - held));
  }
  return seconds;
}

std::vector<double> training_seconds_of_steps(const Arm& arm, const RunRecord& run) {
  std::vector<double> seconds = run.steps.elapsed_s;
  if (has_servers(arm.method)) return seconds;
  for (double& at : seconds) at -= held_before(run, at);
  return seconds;
}

std::string name_of_training(const RunRecord& run) { return "train_" + run.best; }

std::ptrdiff_t reached_at(const RunRecord& run, double level) {
  const train::MetricInfo* metric = run.metric(run.best);
  if (metric == nullptr) return -1;
  for (std::size_t i = 0; i < run.evaluations.size(); ++i) {
    if (train::reaches(*metric, train::value_of(run.evaluations[i], metric->name), level))
      return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

Json row_of(const Arm& arm, const RunEnd& end) {
  Json row = settings_of(arm);
  add_end(row, end);
  return row;
}

Json row_of(const Arm& arm, const RunRecord& run, const RunEnd& end, std::optional<double> level,
            int cores) {
  Json row = row_of(arm, end);
  const double threads = run.number("threads_per_rank");
  const auto hosts = 1 + std::count(end.hosts.begin(), end.hosts.end(), ',');
  row["processes"] = arm.processes;
  row["threads"] = threads > 0 ? Json(threads) : Json(nullptr);
  row["cores_given"] = threads > 0
                           ? Json(std::min(arm.processes * threads,
                                           static_cast<double>(cores) * static_cast<double>(hosts)))
                           : Json(nullptr);
  row["cores_used"] = number_or_null(end.cpu_s / end.wall_s);
  const train::MetricInfo* metric = run.metric(run.best);
  const train::EvaluationRecord* best = train::best_evaluation(run);
  row["metric"] = metric == nullptr ? Json(nullptr) : Json(metric->name);
  row["best"] = best == nullptr ? Json(nullptr) : Json(train::value_of(*best, metric->name));
  row["best_step"] = best == nullptr ? Json(nullptr) : Json(best->step);
  row["last"] = metric == nullptr
                    ? Json(nullptr)
                    : number_or_null(train::value_of(run.evaluations.back(), metric->name));
  row["last_of_training"] =
      metric == nullptr
          ? Json(nullptr)
          : number_or_null(train::value_of(run.evaluations.back(), name_of_training(run)));
  add_level(row, arm, run, level);
  const std::vector<double> steps = training_seconds_of_steps(arm, run);
  const double trained = steps.empty() ? kNone : steps.back();
  const double samples =
      run.steps.epoch.empty() ? kNone : run.steps.epoch.back() * run.number("training_samples");
  row["steps"] = run.last_step();
  row["elapsed_s"] = number_or_null(run.elapsed_s());
  row["training_s"] = number_or_null(trained);
  row["samples_per_s"] = number_or_null(samples / trained);
  const bool downpour = is_downpour(arm.method);
  row["staleness_mean"] = downpour && !run.steps.staleness.empty()
                              ? number_or_null(run.steps.staleness.back())
                              : Json(nullptr);
  row.update(last_counts(run.folder + "/metrics.jsonl"));
  for (const char* which : {"pushed", "fetched"}) {
    const double bytes = number_in(row, (std::string(which) + "_bytes").c_str());
    row[std::string(which) + "_bytes_per_s"] = number_or_null(bytes / trained);
  }
  return row;
}

RunEnd end_of(const Json& row) {
  RunEnd end;
  const auto text = [&row](const char* key) {
    const auto found = row.find(key);
    return found != row.end() && found->is_string() ? found->get<std::string>() : "";
  };
  end.state = text("state");
  end.complaint = text("complaint");
  end.hosts = text("hosts");
  end.wall_s = number_in(row, "wall_s");
  end.cpu_s = number_in(row, "cpu_s");
  return end;
}

double number_in(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : kNone;
}

const train::MetricInfo* ComparedRuns::metric() const {
  for (const ComparedRun& run : runs) {
    if (const train::MetricInfo* metric = run.record.metric(run.record.best)) return metric;
  }
  return nullptr;
}

const train::MetricInfo* ComparedRuns::metric_of_training() const {
  for (const ComparedRun& run : runs) {
    if (const train::MetricInfo* metric = run.record.metric(name_of_training(run.record)))
      return metric;
  }
  return nullptr;
}

std::vector<const Arm*> ComparedRuns::arms() const {
  std::vector<const Arm*> all;
  for (const ComparedRun& run : runs) all.push_back(run.arm);
  return all;
}

}  // namespace convoy::cli
