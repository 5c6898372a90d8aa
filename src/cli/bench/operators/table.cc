#include "cli/bench/operators/table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "base/median.h"

namespace convoy::cli::operators {
namespace {

std::string short_name(const std::string& name) {
  return name.starts_with("aten::") ? name.substr(6) : name;
}

using ShapeKey = std::tuple<Phase, std::string, std::string, std::string>;

// What a step has of calls that are alike.
struct Gathered {
  std::vector<double> seconds;  // by step
  std::int64_t calls = 0;       // of all steps together, as the next
  OperatorCost cost;
};

std::map<ShapeKey, Gathered> gather(const std::vector<ObservedStep>& steps) {
  std::map<ShapeKey, Gathered> all;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (const TimedCall& timed : steps[step].calls) {
      const OperatorCost cost = cost_of(timed.call);
      Gathered& one =
          all[{timed.phase, std::string(kind_of(timed.call.name)), short_name(timed.call.name),
               // What one shape takes with and without a gradient of its input are two things.
               shapes_of(timed.call) + (cost.flops > 0 ? "/" + std::to_string(cost.flops) : "")}];
      one.seconds.resize(steps.size(), 0.0);
      one.seconds[step] += timed.seconds;
      ++one.calls;
      one.cost.flops += cost.flops;
      one.cost.bytes += cost.bytes;
    }
  }
  return all;
}

// Steps are alike, so that the mean is what each has.
std::int64_t of_a_step(std::int64_t sum, std::size_t steps) {
  const auto count = static_cast<std::int64_t>(steps);
  return (sum + count / 2) / count;
}

void set_times(OperatorRow& row, const std::vector<double>& seconds) {
  row.time_s = median(seconds);
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  row.least_s = *least;
  row.most_s = *most;
}

OperatorRow row_of_shapes(const ShapeKey& key, const Gathered& one, std::size_t steps) {
  OperatorRow row;
  row.phase = std::get<0>(key);
  row.kind = std::get<1>(key);
  row.name = std::get<2>(key);
  const std::string& shapes = std::get<3>(key);
  row.shapes = shapes.substr(0, shapes.find('/'));
  row.calls = of_a_step(one.calls, steps);
  row.cost = {of_a_step(one.cost.flops, steps), of_a_step(one.cost.bytes, steps)};
  set_times(row, one.seconds);
  return row;
}

void sort_rows(std::vector<OperatorRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
    return a.phase != b.phase ? a.phase < b.phase : a.time_s > b.time_s;
  });
}

double median_of(const std::vector<ObservedStep>& steps,
                 const std::function<double(const ObservedStep&)>& value) {
  std::vector<double> values;
  for (const ObservedStep& step : steps) values.push_back(value(step));
  return median(values);
}

void add_gap(Gap& gap, const OperatorRow& row) {
  const double beyond = row.time_s - row.limit_s;
  if (row.cost.flops > 0) {
    gap.products_below += beyond;
    gap.products_memory += row.limit_s - row.flops_limit_s;
  } else {
    gap.others_below += beyond;
    gap.others_memory += row.limit_s;
  }
}

// A row of a kind, with what its shapes add to it.
struct KindRow {
  OperatorRow row;
  std::vector<double> seconds;  // by step
  double memory_limit_s = 0;    // of limit_s: where bytes take longer than FLOPs
};

}  // namespace

const char* name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "";
}

double fastest_flops(const std::vector<ObservedStep>& steps) {
  double fastest = 0;
  for (const auto& [key, one] : gather(steps)) {
    const OperatorRow row = row_of_shapes(key, one, steps.size());
    if (row.cost.flops > 0 && row.time_s > 0)
      fastest = std::max(fastest, static_cast<double>(row.cost.flops) / row.time_s);
  }
  return fastest;
}

Table make_table(const std::vector<ObservedStep>& steps, std::int64_t update_bytes,
                 const Limits& limits) {
  Table table;
  std::map<std::pair<Phase, std::string>, KindRow> kinds;
  for (const auto& [key, one] : gather(steps)) {
    OperatorRow row = row_of_shapes(key, one, steps.size());
    row.flops_limit_s = static_cast<double>(row.cost.flops) / limits.flops_per_s;
    const double bytes_limit_s = static_cast<double>(row.cost.bytes) / limits.bytes_per_s;
    row.limit_s = std::max(row.flops_limit_s, bytes_limit_s);
    row.memory_bound = bytes_limit_s > row.flops_limit_s;

    KindRow& kind = kinds[{row.phase, row.kind}];
    kind.row.phase = row.phase;
    kind.row.kind = row.kind;
    kind.row.calls += row.calls;
    kind.row.cost.flops += row.cost.flops;
    kind.row.cost.bytes += row.cost.bytes;
    kind.row.limit_s += row.limit_s;
    kind.row.flops_limit_s += row.flops_limit_s;
    if (row.memory_bound) kind.memory_limit_s += row.limit_s;
    kind.seconds.resize(steps.size(), 0.0);
    for (std::size_t step = 0; step < steps.size(); ++step) kind.seconds[step] += one.seconds[step];

    table.cost.flops += row.cost.flops;
    table.cost.bytes += row.cost.bytes;
    table.limit_s += row.limit_s;
    add_gap(table.gap, row);
    table.shapes.push_back(std::move(row));
  }
  std::array<double, kPhases> in_operators{};
  double in_shapes = 0;
  for (const OperatorRow& row : table.shapes) in_shapes += row.time_s;
  for (auto& [key, kind] : kinds) {
    set_times(kind.row, kind.seconds);
    kind.row.memory_bound = 2 * kind.memory_limit_s > kind.row.limit_s;
    in_operators[static_cast<std::size_t>(kind.row.phase)] += kind.row.time_s;
    table.kinds.push_back(std::move(kind.row));
  }
  sort_rows(table.kinds);
  sort_rows(table.shapes);

  table.step_s = median_of(steps, [](const ObservedStep& step) { return step.seconds; });
  table.between_s = table.step_s;
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    const double whole =
        median_of(steps, [phase](const ObservedStep& step) { return step.phases[phase]; });
    table.outside_s[phase] = whole - in_operators[phase];
    table.between_s -= whole;
  }
  table.update_limit_s = static_cast<double>(update_bytes) / limits.bytes_per_s;
  table.limit_s += table.update_limit_s;
  table.gap.update = table.outside_s[static_cast<std::size_t>(Phase::update)];
  // Medians of shapes and of kinds don't add up to quite the same.
  table.gap.rest = table.step_s - in_shapes - table.gap.update;
  return table;
}

}  // namespace convoy::cli::operators
