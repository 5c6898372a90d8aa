#include "cli/bench/downpour/projection.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/median.h"
#include "cli/bench/downpour/cells.h"
#include "cli/bench/downpour/table.h"
#include "train/report/html.h"

namespace convoy::cli {
namespace {

using train::GroupSpan;
using train::RunRecord;

constexpr double kGbit = 1e9 / 8;  // bytes

double middle_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return values.empty() ? kNone : median(values);
}

// What a run's servers are.
struct Servers {
  double shards = 1;
  double copies = 1;  // of each shard
};

Servers servers_of(const Arm& arm) {
  const train::Options& options = arm.recipe.strategy_options;
  Servers servers;
  servers.shards = static_cast<double>(options.integer("shards"));
  servers.copies = options.flag("backups") ? 2 : 1;
  return servers;
}

double vector_bytes(const ComparedRun& run) {
  return run.record.number("parameters") * (run.arm->recipe.precision == "float64" ? 8 : 4);
}

// Of a run of Sandblaster, all of an evaluation.
struct Evaluations {
  double count = 0;      // until the level was reached
  double portions = 0;   // of each
  double portion_s = 0;  // that one takes a replica
  double pushed = 0;     // bytes, of all replicas
  double between_s = 0;  // in which nobody has a portion: sealing, and what the method does
};

std::optional<Evaluations> evaluations_of(const ComparedRun& run, double level) {
  const RunRecord& record = run.record;
  const std::ptrdiff_t at = reached_at(record, level);
  if (at < 0 || record.iterations.empty() || record.groups.empty()) return std::nullopt;
  const std::int64_t step = record.evaluations[static_cast<std::size_t>(at)].step;
  Evaluations found;
  double all = 1;  // of the first weights
  found.count = 1;
  for (const train::IterationRecord& each : record.iterations) {
    if (each.step == 0) continue;
    all += each.evaluations;
    if (each.step <= step) found.count += each.evaluations;
  }
  struct Span {
    double began_s = HUGE_VAL, ended_s = 0, portions = 0;
  };
  std::map<std::pair<std::int64_t, double>, Span> spans;
  std::vector<double> times;
  for (const GroupSpan& each : record.groups) {
    if (each.end != GroupSpan::End::counted) continue;
    Span& span = spans[{each.iteration, each.evaluation}];
    span.began_s = std::min(span.began_s, each.began_s);
    span.ended_s = std::max(span.ended_s, each.ended_s);
    span.portions += each.portions;
    times.push_back((each.ended_s - each.began_s) / each.portions);
  }
  std::vector<double> gaps, portions;
  const Span* before = nullptr;
  for (const auto& [id, span] : spans) {
    portions.push_back(span.portions);
    if (before != nullptr) gaps.push_back(std::max(0.0, span.began_s - before->ended_s));
    before = &span;
  }
  found.portions = middle_of(portions);
  found.portion_s = middle_of(times);
  found.between_s = gaps.empty() ? 0 : middle_of(gaps);
  found.pushed = number_in(run.row, "pushed_bytes") / all;
  return found;
}

// The run with the fewest replicas: they share cores least. The first one of several seeds.
template <typename Is>
const ComparedRun* least_shared(const ComparedRuns& runs, const Is& is) {
  const ComparedRun* found = nullptr;
  for (const ComparedRun& run : runs.runs) {
    if (!is(run) || reached_at(run.record, *runs.level) < 0) continue;
    if (found == nullptr || run.arm->replicas < found->arm->replicas) found = &run;
  }
  return found;
}

void finish(Projected& row, double units_at_once) {
  const double longer = std::max(row.compute_s, row.servers_s);
  row.bound = row.compute_s >= row.servers_s ? "computing" : "servers' links";
  row.projected_s = row.units / units_at_once * (longer + row.wait_s);
}

// Replicas compute and push side by side; the weights come before, sealing and the method behind.
void add_sandblaster(const ComparedRuns& runs, const ProjectionSettings& settings,
                     Projection& projection) {
  const auto is = [](const ComparedRun& run) { return run.arm->method == Method::sandblaster; };
  const ComparedRun* alone = least_shared(runs, is);
  if (alone == nullptr) return;
  const auto own = evaluations_of(*alone, *runs.level);
  if (!own || !std::isfinite(own->pushed)) return;
  const double link = settings.link_gbit * kGbit, vector = vector_bytes(*alone);
  const Servers servers = servers_of(*alone->arm);
  std::map<int, std::pair<double, double>> measured;  // by replicas: seconds, bytes pushed
  for (const ComparedRun& run : runs.runs) {
    if (!is(run)) continue;
    const auto each = evaluations_of(run, *runs.level);
    if (each && std::isfinite(each->pushed))
      measured.try_emplace(run.arm->replicas, number_in(run.row, "level_s"), each->pushed);
  }
  const auto add = [&](int replicas, double measured_s, double pushed) {
    Projected row;
    row.method = Method::sandblaster;
    row.replicas = replicas;
    row.measured_s = measured_s;
    row.units = own->count;
    row.compute_s = std::ceil(own->portions / replicas) * own->portion_s;
    row.servers_s = pushed * servers.copies / (servers.shards * link);
    const double fetch_s = vector / link * std::max(1.0, replicas / servers.shards);
    row.wait_s = fetch_s + own->between_s;
    finish(row, 1);
    projection.rows.push_back(row);
  };
  for (const auto& [replicas, figures] : measured) add(replicas, figures.first, figures.second);
  const auto& [most, figures] = *measured.rbegin();
  for (const int replicas : settings.more) {
    if (measured.contains(replicas)) continue;
    // Each pushes as often as one did, and no more than once for each portion.
    add(replicas, kNone,
        std::min(own->portions * vector, figures.second / most * static_cast<double>(replicas)));
  }
}

// Of a mini-batch computing, pushing and fetching go on side by side.
void add_downpour(const ComparedRuns& runs, const ProjectionSettings& settings, Method method,
                  Projection& projection) {
  const auto is = [method](const ComparedRun& run) { return run.arm->method == method; };
  const ComparedRun* alone = least_shared(runs, is);
  if (alone == nullptr) return;
  // A row that no replica had reported anything for has 0.
  std::vector<double> computing = alone->record.steps.phases[train::kForward];
  std::erase_if(computing, [](double seconds) { return !(seconds > 0); });
  const double compute_s = middle_of(std::move(computing));
  if (!std::isfinite(compute_s)) return;
  const double link = settings.link_gbit * kGbit;
  for (const ComparedRun& run : runs.runs) {
    const double steps = number_in(run.row, "steps");
    const double pushed = number_in(run.row, "pushed_bytes") / steps;
    const double fetched = number_in(run.row, "fetched_bytes") / steps;
    const double units = number_in(run.row, "level_step");
    if (!is(run) || !std::isfinite(units) || !std::isfinite(pushed + fetched)) continue;
    const Servers servers = servers_of(*run.arm);
    Projected row;
    row.method = method;
    row.replicas = run.arm->replicas;
    row.measured_s = number_in(run.row, "level_s");
    row.units = units;
    row.compute_s = compute_s;
    // So many mini-batches are under way at once, all through the same links.
    row.servers_s =
        row.replicas * std::max(pushed * servers.copies, fetched) / (servers.shards * link);
    finish(row, row.replicas);
    projection.rows.push_back(row);
  }
}

std::vector<std::vector<std::string>> lines_of(const Projection& projection) {
  std::vector<std::vector<std::string>> lines;
  for (const Projected& row : projection.rows) {
    lines.push_back({title(row.method), std::to_string(row.replicas), seconds_text(row.measured_s),
                     seconds_text(row.projected_s), formatted("%.0f", row.units),
                     seconds_text(row.compute_s), seconds_text(row.servers_s),
                     row.wait_s > 0 ? seconds_text(row.wait_s) : "", row.bound});
  }
  return lines;
}

const std::vector<std::string> kProjectionHead{"method",
                                               "replicas",
                                               "measured here",
                                               "projected",
                                               "evaluations or mini-batches",
                                               "computing, each",
                                               "servers' links, each",
                                               "neither, each",
                                               "bound by"};

}  // namespace

Projection project(const ComparedRuns& runs, const ProjectionSettings& settings) {
  Projection projection;
  add_sandblaster(runs, settings, projection);
  for (const Method method : {Method::fixed, Method::adagrad})
    add_downpour(runs, settings, method, projection);
  if (projection.rows.empty()) return projection;
  projection.assumptions = {
      "Nothing of this is measured with more machines than the comparison had.",
      "Each replica and each shard has a machine of its own, like this one, with as many threads "
      "as the replicas here; links have " +
          formatted("%.3g", settings.link_gbit) +
          " Gbit/s each way, nothing else uses them, and they have no latency.",
      "A portion, or a mini-batch, takes as long as in the run with the fewest replicas, where "
      "these share cores least.",
      "Sandblaster takes the evaluations that it took here, whatever the number of replicas; "
      "portions are divided evenly, gradients travel while others are computed, weights before "
      "and sealing behind. Bytes are those that shards have counted; with more replicas than were "
      "measured each pushes as often as one did with the most, at most once for each portion.",
      "Downpour takes the mini-batches that it took here with as many replicas: how many it takes "
      "with more, that are staler, can't be computed, so that there are none.",
      "What servers compute is left out: they keep up with their links."};
  return projection;
}

nlohmann::ordered_json row_of(const Projected& projected) {
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"kind", "projection"},
          {"method", name(projected.method)},
          {"replicas", projected.replicas},
          {"measured_s", number(projected.measured_s)},
          {"projected_s", number(projected.projected_s)},
          {"units", projected.units},
          {"compute_s", number(projected.compute_s)},
          {"servers_s", number(projected.servers_s)},
          {"wait_s", number(projected.wait_s)},
          {"bound", projected.bound}};
}

void print_projection(const Projection& projection, std::FILE* out) {
  if (projection.rows.empty()) return;
  std::fprintf(out, "\nProjected, with a machine for each replica and shard:\n");
  print_columns(kProjectionHead, lines_of(projection), out);
  for (const std::string& sentence : projection.assumptions)
    std::fprintf(out, "- %s\n", sentence.c_str());
}

void add_projection(train::Page& page, const Projection& projection) {
  if (projection.rows.empty()) return;
  page.add("<h2>Projected, with a machine for each replica and shard</h2>\n");
  std::string list;
  for (const std::string& sentence : projection.assumptions)
    list += "<li>" + train::escaped(sentence) + "</li>\n";
  page.add("<ul class=\"soft\">" + list + "</ul>\n");
  std::vector<std::vector<std::string>> lines = lines_of(projection);
  for (auto& line : lines) {
    for (std::string& cell : line) cell = train::escaped(cell);
  }
  std::vector<std::string> head = kProjectionHead;
  for (std::string& cell : head) cell = train::escaped(cell);
  page.add(train::table(head, lines));
}

}  // namespace convoy::cli
