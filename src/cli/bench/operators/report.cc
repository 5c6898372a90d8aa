#include "cli/bench/operators/report.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/median.h"
#include "convoy/base/units.h"

namespace convoy::cli::operators {
namespace {

using Row = nlohmann::ordered_json;

// What the rows are compared with.
struct Bounds {
  MeasuredLimits measured;      // the best of all repetitions and trials
  double step_flops_per_s = 0;  // that operators of one shape reached within steps
  Limits limits;
  std::string flops_by;  // whose figures these are
  std::string bytes_by;
};

// Shares of the FLOP limit that a step's FLOPs reach, in one repetition each.
struct Reached {
  double middle = 0, least = 0, most = 0;
};

Bounds bounds_of(const Findings& f) {
  Bounds bounds{f.trials, fastest_flops(f.observed), {}, {}, {}};
  MeasuredLimits& best = bounds.measured;
  for (const Repetition& one : f.repetitions) best = larger(best, one.limits);
  bounds.limits = {std::max(best.flops_per_s(), bounds.step_flops_per_s), best.bytes_per_s()};
  if (bounds.step_flops_per_s > best.flops_per_s()) {
    bounds.flops_by = "an operator of the step";
  } else if (best.product_flops_per_s >= best.convolution_flops_per_s) {
    bounds.flops_by = "a product";
  } else {
    bounds.flops_by = "a convolution";
  }
  for (const auto& [figure, name] :
       {std::pair{best.read_bytes_per_s, "reading"}, std::pair{best.write_bytes_per_s, "writing"},
        std::pair{best.copy_bytes_per_s, "a copy"}, std::pair{best.triad_bytes_per_s, "a triad"}}) {
    if (figure >= bounds.limits.bytes_per_s) bounds.bytes_by = name;
  }
  return bounds;
}

double plain_step(const Findings& f) {
  std::vector<double> seconds;
  for (const Repetition& one : f.repetitions) seconds.push_back(one.step_s);
  return median(seconds);
}

// Each repetition by itself: what slows the machine down for a while slows both.
Reached reached_by(const Findings& f, double flops) {
  std::vector<double> shares;
  for (const Repetition& one : f.repetitions)
    shares.push_back(flops / one.step_s / one.limits.flops_per_s());
  const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
  return {median(shares), *least, *most};
}

const char* bound_of(const OperatorRow& row) {
  if (row.limit_s <= 0) return "-";
  return row.memory_bound ? "memory" : "FLOP";
}

Row nothing_or(bool there, double value) { return there ? Row(value) : Row(nullptr); }

// -- For programs

void add_heading(Row& row, const Findings& f) {
  row.update({{"model", f.model},
              {"batch", f.batch},
              {"threads", f.threads},
              {"precision", "float32"},
              {"channels_last", f.channels_last},
              {"repetitions", f.repetitions.size()},
              {"steps_per_repetition", f.steps}});
}

Row limits_row(const Findings& f, const Bounds& bounds) {
  const MeasuredLimits& best = bounds.measured;
  Row row;
  row["kind"] = "limits";
  add_heading(row, f);
  row.update({{"flops_per_s", bounds.limits.flops_per_s},
              {"flops_by", bounds.flops_by},
              {"product_flops_per_s", best.product_flops_per_s},
              {"product", f.product},
              {"convolution_flops_per_s", best.convolution_flops_per_s},
              {"convolution", f.convolution},
              {"step_operator_flops_per_s", bounds.step_flops_per_s},
              {"bandwidth_bytes_per_s", bounds.limits.bytes_per_s},
              {"bandwidth_by", bounds.bytes_by},
              {"read_bytes_per_s", best.read_bytes_per_s},
              {"write_bytes_per_s", best.write_bytes_per_s},
              {"copy_bytes_per_s", best.copy_bytes_per_s},
              {"triad_bytes_per_s", best.triad_bytes_per_s}});
  return row;
}

Row operator_row(const OperatorRow& one, const Table& table) {
  const bool shapes = !one.name.empty();
  Row row{{"kind", shapes ? "shapes" : "operator"},
          {"phase", name_of(one.phase)},
          {"operator", one.kind}};
  if (shapes) row.update({{"name", one.name}, {"shapes", one.shapes}});
  row.update(
      {{"calls", one.calls},
       {"time_s", one.time_s},
       {"time_min_s", one.least_s},
       {"time_max_s", one.most_s},
       {"share", one.time_s / table.step_s},
       {"flops", one.cost.flops},
       {"bytes", one.cost.bytes},
       {"limit_s", one.limit_s},
       {"bound", one.limit_s > 0 ? Row(one.memory_bound ? "memory" : "flops") : Row(nullptr)},
       {"attained", nothing_or(one.limit_s > 0 && one.time_s > 0, one.limit_s / one.time_s)}});
  return row;
}

Row outside_row(const char* phase, double seconds, const Table& table) {
  return {{"kind", "outside"},
          {"phase", phase},
          {"time_s", seconds},
          {"share", seconds / table.step_s}};
}

Row step_row(const Findings& f, const Table& table, const Bounds& bounds) {
  const double step = plain_step(f);
  const Reached reached = reached_by(f, static_cast<double>(table.cost.flops));
  const double flops_s = static_cast<double>(table.cost.flops) / bounds.limits.flops_per_s;
  Row row;
  row["kind"] = "step";
  add_heading(row, f);
  row.update({{"step_s", step},
              {"observed_step_s", table.step_s},
              {"images_per_s", static_cast<double>(f.batch) / step},
              {"flops", table.cost.flops},
              {"bytes", table.cost.bytes},
              {"flops_limit_s", flops_s},
              {"limit_s", table.limit_s},
              {"of_flops_limit", flops_s / step},
              {"of_flops_limit_in_repetitions", reached.middle},
              {"of_flops_limit_min", reached.least},
              {"of_flops_limit_max", reached.most},
              {"of_limits", table.limit_s / step}});
  row["beyond_flops_s"] = {{"products_below", table.gap.products_below},
                           {"products_memory", table.gap.products_memory},
                           {"others_memory", table.gap.others_memory},
                           {"others_below", table.gap.others_below},
                           {"update", table.gap.update},
                           {"rest", table.gap.rest}};
  return row;
}

void add_rows(const Findings& f, const Table& table, const Bounds& bounds, bool layers,
              Rows& rows) {
  rows.add(limits_row(f, bounds));
  for (const OperatorRow& one : table.kinds) rows.add(operator_row(one, table));
  if (layers) {
    for (const OperatorRow& one : table.shapes) rows.add(operator_row(one, table));
  }
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    Row row = outside_row(name_of(static_cast<Phase>(phase)), table.outside_s[phase], table);
    if (static_cast<Phase>(phase) == Phase::update)
      row.update({{"bytes", f.update_bytes}, {"limit_s", table.update_limit_s}});
    rows.add(row);
  }
  rows.add(outside_row("between", table.between_s, table));
  rows.add(step_row(f, table, bounds));
}

// -- For people

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

std::string count_in(double value, double unit) {
  if (value == 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value / unit);
  return text;
}

std::string time_of(double seconds) {
  return seconds < 0 ? "-" + format_seconds(-seconds) : format_seconds(seconds);
}

void print_limits(const Findings& f, const Bounds& bounds) {
  const MeasuredLimits& best = bounds.measured;
  std::printf("%s, batch %lld, %d thread%s, float32%s; %zu alternating repetitions of %d steps\n",
              f.model.c_str(), static_cast<long long>(f.batch), f.threads,
              f.threads == 1 ? "" : "s", f.channels_last ? ", channels-last" : "",
              f.repetitions.size(), f.steps);
  std::printf("limits: %.1f GFLOP/s (%s), %.1f GB/s (%s)\n", bounds.limits.flops_per_s / 1e9,
              bounds.flops_by.c_str(), bounds.limits.bytes_per_s / 1e9, bounds.bytes_by.c_str());
  std::printf("  GFLOP/s: product %.1f (%s), convolution %.1f (%s), in the step %.1f\n",
              best.product_flops_per_s / 1e9, f.product.c_str(), best.convolution_flops_per_s / 1e9,
              f.convolution.c_str(), bounds.step_flops_per_s / 1e9);
  std::printf("  GB/s: read %.1f, write %.1f, copy %.1f, triad %.1f\n\n",
              best.read_bytes_per_s / 1e9, best.write_bytes_per_s / 1e9,
              best.copy_bytes_per_s / 1e9, best.triad_bytes_per_s / 1e9);
}

constexpr int kNameWidth = 30;

void print_line(const std::string& name, const std::string& calls, double seconds,
                const Table& table, double flops, double bytes, double limit_s, const char* bound) {
  std::printf("%-*s %5s %9s %8s %8s %8s %9s  %-6s %9s\n", kNameWidth, name.c_str(), calls.c_str(),
              time_of(seconds).c_str(), percent(seconds / table.step_s).c_str(),
              count_in(flops, 1e9).c_str(), count_in(bytes, 1e6).c_str(),
              limit_s > 0 ? time_of(limit_s).c_str() : "-", bound,
              limit_s > 0 && seconds > 0 ? percent(limit_s / seconds).c_str() : "-");
}

void print_row(const std::string& name, const OperatorRow& row, const Table& table) {
  print_line(name, std::to_string(row.calls), row.time_s, table,
             static_cast<double>(row.cost.flops), static_cast<double>(row.cost.bytes), row.limit_s,
             bound_of(row));
}

void print_phase(Phase phase, const Findings& f, const Table& table, bool layers) {
  const std::string name = name_of(phase);
  for (const OperatorRow& kind : table.kinds) {
    if (kind.phase != phase) continue;
    print_row(name + " " + kind.kind, kind, table);
    if (!layers) continue;
    for (const OperatorRow& row : table.shapes) {
      if (row.phase == phase && row.kind == kind.kind)
        print_row("  " + (row.shapes.empty() ? row.name : row.shapes), row, table);
    }
  }
  const double outside = table.outside_s[static_cast<std::size_t>(phase)];
  if (phase == Phase::update) {
    print_line("update, fused", "", outside, table, 0, static_cast<double>(f.update_bytes),
               table.update_limit_s, "memory");
  } else {
    print_line(name + ", no operator", "", outside, table, 0, 0, 0, "-");
  }
}

void print_gap(const Table& table, const Bounds& bounds) {
  const double flops_s = static_cast<double>(table.cost.flops) / bounds.limits.flops_per_s;
  std::printf("\nwhere an observed step goes\n");
  const auto line = [&table](const char* what, double seconds) {
    std::printf("  %-66s %9s %8s\n", what, time_of(seconds).c_str(),
                percent(seconds / table.step_s).c_str());
  };
  line("its FLOPs, at their limit", flops_s);
  line("convolutions and products: more than their limit", table.gap.products_below);
  line("convolutions and products that memory bounds: more than their FLOPs",
       table.gap.products_memory);
  line("other operators, at the limit of memory", table.gap.others_memory);
  line("other operators: more than that (less: out of caches)", table.gap.others_below);
  line("the update", table.gap.update);
  line("no operator: autograd, hooks, waiting for samples", table.gap.rest);
}

void print_table(const Findings& f, const Table& table, const Bounds& bounds, bool layers) {
  print_limits(f, bounds);
  std::printf("%-*s %5s %9s %8s %8s %8s %9s  %-6s %9s\n", kNameWidth, "operator", "calls", "time",
              "share", "GFLOP", "MB", "at limit", "bound", "attained");
  for (std::size_t phase = 0; phase < kPhases; ++phase)
    print_phase(static_cast<Phase>(phase), f, table, layers);
  print_line("between phases", "", table.between_s, table, 0, 0, 0, "-");
  print_line("observed step", "", table.step_s, table, static_cast<double>(table.cost.flops),
             static_cast<double>(table.cost.bytes + f.update_bytes), table.limit_s, "all");
  print_gap(table, bounds);

  const double step = plain_step(f), flops = static_cast<double>(table.cost.flops);
  const Reached reached = reached_by(f, flops);
  std::printf("\nstep %s, %.2f images/s; %s when observed, %+.1f %%\n", time_of(step).c_str(),
              static_cast<double>(f.batch) / step, time_of(table.step_s).c_str(),
              100 * (table.step_s / step - 1));
  std::printf("  %.1f GFLOP/s: %s of the FLOP limit; by repetition %s (%s to %s)\n",
              flops / step / 1e9, percent(flops / step / bounds.limits.flops_per_s).c_str(),
              percent(reached.middle).c_str(), percent(reached.least).c_str(),
              percent(reached.most).c_str());
  std::printf("  all operators and the update at their limits: %s, %s of the step\n",
              time_of(table.limit_s).c_str(), percent(table.limit_s / step).c_str());
}

}  // namespace

void report(const Findings& f, bool layers, Rows& rows) {
  const Bounds bounds = bounds_of(f);
  const Table table = make_table(f.observed, f.update_bytes, bounds.limits);
  add_rows(f, table, bounds, layers, rows);
  if (!rows.on_standard_output()) print_table(f, table, bounds, layers);
}

}  // namespace convoy::cli::operators
