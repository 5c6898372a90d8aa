#include "train/report/run_record.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/metrics.h"
#include "train/checkpoint/run_lock.h"
#include "train/report/parse_row.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

template <class Pairs>
auto find(const Pairs& pairs, const std::string& key) {
  return std::find_if(pairs.begin(), pairs.end(),
                      [&key](const auto& pair) { return pair.first == key; });
}

double number_in(const MetricsRow& row, const std::string& key, double otherwise = kNothing) {
  const auto found = find(row.numbers, key);
  return found == row.numbers.end() ? otherwise : found->second;
}

// A count, or a step; `otherwise` for what can't be one.
std::int64_t whole(double number, std::int64_t otherwise) {
  constexpr double kMost = 1e15;
  return number >= 0 && number <= kMost ? static_cast<std::int64_t>(number) : otherwise;
}

std::string text_in(const MetricsRow& row, const std::string& key) {
  const auto found = find(row.strings, key);
  return found == row.strings.end() ? "" : found->second;
}

// The rate, whatever it counts.
double rate_in(const MetricsRow& row, std::string& unit) {
  constexpr std::string_view kEnd = "_per_s";
  for (const auto& [key, value] : row.numbers) {
    if (!key.ends_with(kEnd)) continue;
    unit = key.substr(0, key.size() - kEnd.size());
    return value;
  }
  return kNothing;
}

class Builder {
 public:
  explicit Builder(RunRecord& run) : run_(run) {}

  void add(const MetricsRow& row) {
    if (row.kind == "run") return add_part(row);
    if (row.kind == "step") return add_step(row);
    if (row.kind == "evaluation") return add_evaluation(row);
    if (row.kind == "ranks") return add_ranks(row);
    if (row.kind == "groups") return add_groups(row);
    if (row.kind == "iteration") return add_iteration(row);
    if (row.kind == "checkpoint") {
      run_.checkpoints.push_back({row.step, number_in(row, "elapsed_s"), number_in(row, "time_s"),
                                  number_in(row, "held_s"), number_in(row, "copied_bytes"),
                                  text_in(row, "path")});
    } else if (row.kind == "epoch") {
      std::string unit;
      run_.epochs.push_back({row.step, number_in(row, "epoch"), number_in(row, "loss"),
                             number_in(row, "time_s"), rate_in(row, unit)});
    } else if (row.kind == "target") {
      run_.target_at = row.step;
    } else if (row.kind == "end") {
      run_.end = text_in(row, "how");
      run_.end_at = row.step;
    } else if (row.kind == "slow_rank") {
      run_.slow_ranks.push_back({row.step, number_in(row, "rank", 0), number_in(row, "own_s", 0),
                                 number_in(row, "others_s", 0), text_in(row, "host"),
                                 text_in(row, "phase")});
    }
  }

 private:
  void add_part(const MetricsRow& row) {
    RunPart part;
    part.numbers.insert(row.numbers.begin(), row.numbers.end());
    part.strings.insert(row.strings.begin(), row.strings.end());
    part.names.insert(row.names.begin(), row.names.end());
    // One that doesn't say where it goes on does so where the part before it ended.
    part.resumed_at = whole(number_in(row, "resumed_at"), run_.last_step());
    forget_beyond(part.resumed_at);
    run_.parts.push_back(std::move(part));
    const auto metrics = find(row.names, "metrics");
    if (metrics == row.names.end()) return;
    run_.metrics.clear();
    const auto flag = [&row](const char* key, std::size_t i) {
      const auto list = find(row.lists, key);
      return list != row.lists.end() && i < list->second.size() && list->second[i] != 0;
    };
    const auto titles = find(row.names, "metric_titles");
    for (std::size_t i = 0; i < metrics->second.size(); ++i) {
      const bool titled = titles != row.names.end() && i < titles->second.size();
      run_.metrics.push_back({metrics->second[i], titled ? titles->second[i] : metrics->second[i],
                              flag("metric_higher_is_better", i), flag("metric_percent", i)});
    }
    run_.best = text_in(row, "best_metric");
  }

  // Rows that a run left which got further than where it goes on.
  void forget_beyond(std::int64_t step) {
    const auto beyond = [step](const auto& record) { return record.step > step; };
    std::erase_if(run_.evaluations, beyond);
    std::erase_if(run_.checkpoints, beyond);
    std::erase_if(run_.epochs, beyond);
    std::erase_if(run_.ranks, beyond);
    std::erase_if(run_.slow_ranks, beyond);
    std::erase_if(run_.groups, beyond);
    std::erase_if(run_.iterations, beyond);
    if (run_.target_at > step) run_.target_at = -1;
    run_.end.clear();
    run_.end_at = 0;
    cut(static_cast<double>(step));
  }

  void cut(double step) {
    StepColumns& s = run_.steps;
    std::size_t keep = s.step.size();
    while (keep > 0 && s.step[keep - 1] > step) --keep;
    if (keep == s.step.size()) return;
    for (auto* column : {&s.step, &s.epoch, &s.elapsed_s, &s.loss, &s.learning_rate, &s.rate,
                         &s.replicas, &s.staleness})
      column->resize(keep);
    for (auto& column : s.phases) column.resize(keep);
  }

  void add_step(const MetricsRow& row) {
    StepColumns& s = run_.steps;
    cut(static_cast<double>(row.step - 1));
    const double rate = rate_in(row, run_.unit);
    s.step.push_back(static_cast<double>(row.step));
    s.epoch.push_back(number_in(row, "epoch"));
    s.elapsed_s.push_back(number_in(row, "elapsed_s"));
    s.loss.push_back(number_in(row, "loss"));
    s.learning_rate.push_back(number_in(row, "learning_rate"));
    s.replicas.push_back(number_in(row, "replicas"));
    s.staleness.push_back(number_in(row, "staleness_mean"));
    s.rate.push_back(rate);
    for (std::size_t i = 0; i < kPhases; ++i) s.phases[i].push_back(number_in(row, kPhaseKeys[i]));
  }

  void add_evaluation(const MetricsRow& row) {
    EvaluationRecord record;
    record.step = row.step;
    record.epoch = number_in(row, "epoch");
    record.elapsed_s = number_in(row, "elapsed_s");
    record.time_s = number_in(row, "time_s");
    record.samples = number_in(row, "samples");
    for (const auto& [key, value] : row.numbers) {
      if (key == "epoch" || key == "elapsed_s" || key == "time_s" || key == "samples" ||
          key == "skipped")
        continue;
      record.metrics[key] = value;
    }
    run_.evaluations.push_back(std::move(record));
  }

  void add_ranks(const MetricsRow& row) {
    RankTimesRecord record{row.step, whole(number_in(row, "steps"), 0), {}};
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
      const auto list = find(row.lists, kPhaseKeys[phase]);
      if (list == row.lists.end()) return;
      if (phase == 0) record.ranks.resize(list->second.size());
      if (list->second.size() != record.ranks.size()) return;
      for (std::size_t rank = 0; rank < record.ranks.size(); ++rank)
        record.ranks[rank][phase] = list->second[rank];
    }
    // A run that goes on with another number of ranks: what is shown is the newest of these.
    if (!run_.ranks.empty() && run_.ranks.back().ranks.size() != record.ranks.size())
      run_.ranks.clear();
    if (record.steps > 0 && !record.ranks.empty()) run_.ranks.push_back(std::move(record));
  }

  void add_iteration(const MetricsRow& row) {
    IterationRecord record;
    record.step = row.step;
    for (const auto& [key, value] : {std::pair{"elapsed_s", &record.elapsed_s},
                                     {"loss", &record.loss},
                                     {"gradient_norm", &record.gradient_norm},
                                     {"step_length", &record.step_length},
                                     {"evaluations", &record.evaluations},
                                     {"portions", &record.portions},
                                     {"portions_again", &record.again},
                                     {"portions_copied", &record.copies},
                                     {"portions_unused", &record.unused}})
      *value = number_in(row, key);
    record.restarted = number_in(row, "restarted", 0) != 0;
    if (!run_.iterations.empty() && run_.iterations.back().step >= record.step) return;
    run_.iterations.push_back(record);
  }

  // A column each, as long as each other.
  void add_groups(const MetricsRow& row) {
    static constexpr std::array kColumns = {"iteration", "evaluation", "first",
                                            "portions",  "replica",    "copy",
                                            "end",       "began_s",    "ended_s"};
    std::array<const std::vector<double>*, kColumns.size()> columns{};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto found = find(row.lists, kColumns[i]);
      if (found == row.lists.end()) return;
      columns[i] = &found->second;
      if (columns[i]->size() != columns[0]->size()) return;
    }
    const double now = number_in(row, "elapsed_s");
    for (std::size_t i = 0; i < columns[0]->size(); ++i) {
      const auto value = [&](std::size_t column) { return (*columns[column])[i]; };
      GroupSpan span;
      span.step = row.step;
      span.iteration = whole(value(0), 0);
      span.evaluation = value(1);
      span.first = value(2);
      span.portions = value(3);
      span.part = run_.parts.size();
      span.replica = value(4);
      span.copy = value(5) != 0;
      span.began_s = now + value(7);
      span.ended_s = now + value(8);
      if (value(6) == 1) span.end = GroupSpan::End::unused;
      if (value(6) == 2) span.end = GroupSpan::End::lost;
      const bool good = std::isfinite(span.began_s) && span.ended_s >= span.began_s &&
                        std::isfinite(span.ended_s) && std::isfinite(span.replica) &&
                        span.portions >= 0;
      if (good) run_.groups.push_back(span);
    }
    const auto numbers = find(row.lists, "replicas");
    const auto names = find(row.names, "replica_names");
    if (numbers == row.lists.end() || names == row.names.end()) return;
    for (std::size_t i = 0; i < std::min(numbers->second.size(), names->second.size()); ++i)
      run_.replicas[{run_.parts.size(), numbers->second[i]}] = names->second[i];
  }

  RunRecord& run_;
};

// For runs that don't say: the names that Convoy's own tasks have, and a guess.
void complete_metrics(RunRecord& run) {
  for (const EvaluationRecord& evaluation : run.evaluations) {
    for (const auto& [name, value] : evaluation.metrics) {
      if (run.metric(name) != nullptr) continue;
      const bool lower = name.find("loss") != std::string::npos ||
                         name.find("error") != std::string::npos ||
                         name.find("perplexity") != std::string::npos;
      run.metrics.push_back({name, name, !lower, name.starts_with("top") || name == "accuracy"});
    }
  }
  std::erase_if(run.metrics, [&run](const MetricInfo& metric) {
    return std::none_of(run.evaluations.begin(), run.evaluations.end(),
                        [&metric](const auto& e) { return e.metrics.contains(metric.name); });
  });
  if (run.metric(run.best) != nullptr) return;
  run.best.clear();
  if (run.metrics.empty()) return;
  run.best = run.metric("top1") != nullptr ? "top1" : run.metrics.front().name;
}

void read_metrics(const std::string& path, RunRecord& run) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure("cannot read " + path + ": " + std::strerror(errno));
  Builder builder(run);
  RowParser parser;
  std::string line;
  std::int64_t bad = 0;
  // A last line without a line feed is being written, or was when its process died.
  while (std::getline(file, line) && !file.eof()) {
    if (const MetricsRow* row = parser.parse(line)) {
      builder.add(*row);
    } else {
      ++bad;
    }
  }
  if (file.bad()) throw Failure("cannot read " + path + ": " + std::strerror(errno));
  if (bad > 0)
    run.missing.push_back(std::to_string(bad) +
                          " lines of metrics.jsonl can't be read; they are "
                          "left out");
}

void say_what_is_missing(RunRecord& run) {
  const auto missing = [&run](const std::string& line) { run.missing.push_back(line); };
  if (run.parts.empty()) {
    missing("metrics.jsonl doesn't say how the run began: no command, no sizes, no environment");
  } else if (run.text("command").empty()) {
    missing("the run's command and environment are not recorded (an older version wrote it)");
  }
  if (run.steps.step.empty()) {
    missing("no update was recorded: there are no curves");
  } else if (std::isnan(run.steps.elapsed_s.back())) {
    missing("updates have no times: there are no curves over time (an older version wrote it)");
  }
  if (run.evaluations.empty())
    missing("no evaluation was made: there are no validation metrics, and no times to reach them");
  if (run.checkpoints.empty()) missing("no checkpoint was written");
  if (run.ranks.empty() && !run.steps.step.empty())
    missing("there are no times by rank (output.rank_times_every_steps)");
}

}  // namespace

double RunRecord::number(const std::string& key) const {
  if (parts.empty()) return 0;
  const auto found = parts.back().numbers.find(key);
  return found == parts.back().numbers.end() || !std::isfinite(found->second) ? 0 : found->second;
}

std::string RunRecord::text(const std::string& key) const {
  if (parts.empty()) return "";
  const auto found = parts.back().strings.find(key);
  return found == parts.back().strings.end() ? "" : found->second;
}

std::vector<std::string> RunRecord::hosts() const {
  if (parts.empty()) return {};
  const auto found = parts.back().names.find("hosts");
  return found == parts.back().names.end() ? std::vector<std::string>() : found->second;
}

std::int64_t RunRecord::last_step() const {
  std::int64_t last = 0;
  if (!steps.step.empty()) last = static_cast<std::int64_t>(steps.step.back());
  if (!checkpoints.empty()) last = std::max(last, checkpoints.back().step);
  return std::max(last, end_at);
}

std::int64_t RunRecord::planned_steps() const { return whole(number("steps"), 0); }

double RunRecord::elapsed_s() const {
  double last = 0;
  if (!steps.elapsed_s.empty() && std::isfinite(steps.elapsed_s.back()))
    last = steps.elapsed_s.back();
  for (const EvaluationRecord& e : evaluations) last = std::fmax(last, e.elapsed_s);
  return last;
}

const MetricInfo* RunRecord::metric(const std::string& name) const {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&name](const MetricInfo& m) { return m.name == name; });
  return found == metrics.end() ? nullptr : &*found;
}

RunRecord read_run(const std::string& folder) {
  RunRecord run;
  std::error_code error;
  run.folder = fs::absolute(folder).lexically_normal().string();
  if (run.folder.size() > 1 && run.folder.ends_with('/')) run.folder.pop_back();
  run.label = fs::path(run.folder).filename().string();
  if (!fs::is_directory(run.folder, error))
    throw UsageError("there is no folder " + run.folder +
                     "; name the folder of a run, as "
                     "runs/lenet-mnist");
  const std::string metrics = run.folder + "/metrics.jsonl";
  const std::string recipe = run.folder + "/recipe.toml";
  const bool has_metrics = fs::exists(metrics, error);
  const bool has_recipe = fs::exists(recipe, error);
  if (!has_metrics && !has_recipe)
    throw UsageError(run.folder + " is no run: it has neither metrics.jsonl nor recipe.toml");
  if (has_recipe)
    run.recipe = read_text_file(recipe);
  else
    run.missing.push_back("there is no recipe.toml");
  if (has_metrics)
    read_metrics(metrics, run);
  else
    run.missing.push_back("there is no metrics.jsonl: nothing of what was measured is known");
  if (has_metrics) say_what_is_missing(run);
  complete_metrics(run);
  run.at_work = run_at_work(run.folder);
  return run;
}

}  // namespace convoy::train
