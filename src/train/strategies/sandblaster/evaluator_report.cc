// What the evaluator of a Sandblaster job tells the trainer of an iteration.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "train/strategies/sandblaster/evaluator.h"

namespace convoy::train {

// Records are numbered by each coordinator anew; their times are those of its clock.
void BatchEvaluator::note_groups(const server::BatchProgress& progress) {
  if (progress.term != term_) {
    term_ = progress.term;
    if (std::exchange(last_record_, 0) > 0) return;  // those that were asked for are others
  }
  const double ahead = seconds_since(began_) - progress.time_s;
  for (server::GroupRecord record : progress.groups) {
    last_record_ = std::max(last_record_, record.number);
    record.began_s += ahead;
    record.ended_s += ahead;
    groups_.push_back(record);
  }
  for (const server::BatchReplica& replica : progress.replicas)
    replicas_[replica.replica] = replica.name;
}

// What they were is good enough where servers are away.
void BatchEvaluator::note_totals() {
  if (outer_->world().rank() > 0 || !service_->ended().empty()) return;
  try {
    totals_ = service_->totals();
  } catch (const Failure&) {
  }
}

MetricsRow BatchEvaluator::iteration_row(const server::BatchProgress& p) const {
  const auto count = [](std::uint64_t n) { return static_cast<double>(n); };
  return {.kind = "iteration",
          .step = p.state.iteration,
          .numbers = {{"loss", p.state.loss},
                      {"gradient_norm", p.last.gradient_norm},
                      {"step_length", p.last.step},
                      {"evaluations", static_cast<double>(p.last.evaluations)},
                      {"restarted", p.last.restarted ? 1.0 : 0.0},
                      {"portions", count(p.iteration.done)},
                      {"portions_again", count(p.iteration.again)},
                      {"portions_copied", count(p.iteration.copies)},
                      {"portions_unused", count(p.iteration.unused)},
                      {"method_bytes", count(p.method_bytes)},
                      {"portion_bytes", count(p.portion_bytes)}},
          .strings = {}};
}

MetricsRow BatchEvaluator::take_groups(std::int64_t step) {
  MetricsRow row{.kind = "groups", .step = step, .numbers = {}, .strings = {}};
  const double now = seconds_since(began_);
  const auto column = [&](const char* key, const auto& value) {
    std::vector<double> values;
    for (const server::GroupRecord& each : groups_)
      values.push_back(static_cast<double>(value(each)));
    row.lists.emplace_back(key, std::move(values));
  };
  // To the millisecond, which is shorter to write.
  const auto ago = [now](double time) { return std::round((time - now) * 1e3) / 1e3; };
  using Record = server::GroupRecord;
  column("iteration", [](const Record& each) { return each.evaluation.iteration; });
  column("evaluation", [](const Record& each) { return each.evaluation.evaluation; });
  column("first", [](const Record& each) { return each.group.first; });
  column("portions", [](const Record& each) { return each.group.end() - each.group.first; });
  column("replica", [](const Record& each) { return each.replica; });
  column("copy", [](const Record& each) { return each.copy ? 1 : 0; });
  column("end", [](const Record& each) { return static_cast<int>(each.end); });
  column("began_s", [&](const Record& each) { return ago(each.began_s); });
  column("ended_s", [&](const Record& each) { return ago(each.ended_s); });
  std::vector<double> numbers;
  std::vector<std::string> names;
  // Of those that are gone nobody asks for the name again.
  std::set<std::uint64_t> named;
  for (const server::GroupRecord& each : groups_) named.insert(each.replica);
  std::erase_if(replicas_, [&](const auto& each) { return !named.contains(each.first); });
  for (const auto& [number, name] : replicas_) {
    numbers.push_back(static_cast<double>(number));
    names.push_back(name);
  }
  row.lists.emplace_back("replicas", std::move(numbers));
  row.names.emplace_back("replica_names", std::move(names));
  groups_.clear();
  return row;
}

StepReport BatchEvaluator::report_of(const Seen& seen) {
  const server::BatchProgress& p = seen.progress;
  StepReport report;
  report.updates = std::max<std::int64_t>(p.state.iteration - outer_->moment().step, 0);
  report.requests = seen.requests;
  report.learning_rate = p.last.step;
  report.samples = outer_->training_data().size() * static_cast<std::uint64_t>(report.updates);
  report.weight = static_cast<double>(report.samples);
  report.loss = p.state.loss;
  report.gradient_norm = p.last.gradient_norm;
  report.elapsed_s = seconds_since(told_at_);
  report.last = seen.over;
  told_at_ = Clock::now();
  const auto count = [](std::uint64_t n) { return static_cast<double>(n); };
  report.more.numbers = {{"step_length", p.last.step},
                         {"evaluations", static_cast<double>(p.last.evaluations)},
                         {"portions", count(p.iteration.done)},
                         {"portions_redone", count(p.iteration.again)},
                         {"portions_copied", count(p.iteration.copies)},
                         {"portions_twice", count(p.iteration.unused)},
                         {"restarted", p.last.restarted ? 1.0 : 0.0}};
  note_totals();
  report.more.numbers.emplace_back("pushed_bytes", count(totals_.pushed_bytes));
  report.more.numbers.emplace_back("fetched_bytes", count(totals_.fetched_bytes));
  if (report.updates > 0) report.more.rows.push_back(iteration_row(p));
  if (!groups_.empty()) report.more.rows.push_back(take_groups(moment_of(seen).step));
  return report;
}

}  // namespace convoy::train
