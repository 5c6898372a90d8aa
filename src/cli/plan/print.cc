#include <cmath>
#include <set>

#include "base/toml_text.h"
#include "cli/plan/answers.h"
#include "cli/plan/estimates.h"
#include "cli/plan/numbers.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? format_seconds(seconds) : "-";
}

std::string time_text(const std::optional<plan::BatchTime>& time) {
  if (!time) return "-";
  return seconds_text(time->seconds) + " (" + std::to_string(time->batch) + ")";
}

void print_warnings(const std::vector<std::string>& warnings, std::set<std::string>& said,
                    std::FILE* out) {
  for (const std::string& warning : warnings) {
    if (said.insert(warning).second) std::fprintf(out, "  warning: %s\n", warning.c_str());
  }
}

std::string compute_text(const PlannedMachine& machine) {
  const plan::Machine& m = machine.machine.machine;
  if (!m.table.empty()) return table_text(m.table);
  const auto text = [&](const std::string& sample, const std::string& knee,
                        const std::string& overhead) {
    return (m.overhead_s > 0 ? overhead + ", and " : "") + sample + " a sample" +
           (m.knee_samples > 1 ? ", and not less for fewer than " + knee + " samples" : "");
  };
  if (!machine.compute) {
    return text(seconds_text(m.seconds_per_sample), short_text(m.knee_samples),
                seconds_text(m.overhead_s));
  }
  return text(text_of(machine.compute->seconds_per_sample, seconds_text),
              text_of(machine.compute->knee_samples, short_text),
              text_of(machine.compute->overhead_s, seconds_text));
}

std::string communication_text(const PlannedMachine& machine) {
  const plan::Communication& c = machine.machine.machine.communication;
  if (c.kind == plan::CommunicationKind::table) return table_text(c);
  return std::string(plan::name(c.kind)) + ", " +
         (machine.communication ? text_of(machine.communication->delta_s, seconds_text)
                                : seconds_text(plan::delta_seconds(c))) +
         (c.latency_s > 0 ? ", latency " + seconds_text(c.latency_s) : "");
}

std::string percent_text(double percent) { return short_text(percent) + "%"; }

std::string percents_text(const plan::Estimate& percents) {
  return text_of(percents, percent_text);
}

void print_machine(const PlannedMachine& machine, std::FILE* out) {
  std::fprintf(out, "update on one worker: %s\n", compute_text(machine).c_str());
  const std::string longer = contention_text(machine, percents_text);
  if (!longer.empty())
    std::fprintf(out, "workers that share a host compute longer: %s\n", longer.c_str());
  const plan::CommunicationKind kind = machine.machine.machine.communication.kind;
  if (kind != plan::CommunicationKind::none && kind != plan::CommunicationKind::unknown) {
    std::fprintf(out, "communication that computation does not hide: %s\n",
                 communication_text(machine).c_str());
  }
  std::set<std::string> said;
  if (machine.compute) print_warnings(machine.compute->warnings, said, out);
  if (machine.communication) print_warnings(machine.communication->warnings, said, out);
}

void print_level(const std::string& metric, const LevelAnswer& level, std::FILE* out) {
  const plan::UpdateFit& fit = level.updates;
  std::fprintf(out, "\n%s %s: %s + %s/M updates\n", metric.c_str(), shortest(level.level).c_str(),
               text_of(fit.updates_at_infinity, short_text).c_str(),
               text_of(fit.noise_sensitivity, short_text).c_str());
  std::fprintf(out, "  %8s %9s %5s %8s %9s %9s %9s\n", "M", "rate", "runs", "reached", "updates",
               "fitted", "residual");
  for (const plan::EnvelopePoint& point : fit.envelope) {
    std::fprintf(out, "  %8lld %9s %5d %8d %9s %9s %9.2f\n", static_cast<long long>(point.batch),
                 short_text(point.learning_rate).c_str(), point.runs, point.reached,
                 std::isfinite(point.updates) ? short_text(point.updates).c_str() : "-",
                 short_text(point.fitted).c_str(), point.residual);
  }
  std::fprintf(out, "  %7s  %-22s %7s %9s  %-28s %-14s %-18s %s\n", "workers", "M_opt", "batch",
               "rate", "time to the target", "within 5%", "strong scaling", "weak scaling");
  for (const plan::BatchChoice& choice : level.choices) {
    std::fprintf(
        out, "  %7lld  %-22s %7lld %9s  %-28s %-14s %-18s %s\n",
        static_cast<long long>(choice.workers), text_of(choice.optimum, short_text).c_str(),
        static_cast<long long>(choice.batch), short_text(choice.learning_rate).c_str(),
        text_of(choice.seconds, seconds_text).c_str(),
        (std::to_string(choice.low_batch) + " to " + std::to_string(choice.high_batch)).c_str(),
        time_text(choice.strong).c_str(), time_text(choice.weak).c_str());
  }
  std::set<std::string> said;
  print_warnings(fit.warnings, said, out);
  for (const plan::BatchChoice& choice : level.choices) print_warnings(choice.warnings, said, out);
}

Json row_of(const PlannedMachine& machine) {
  const plan::Machine& m = machine.machine.machine;
  Json row{{"kind", "machine"},
           {"source", m.source},
           {"name", m.name},
           {"processor_share", m.processor_share}};
  if (machine.compute) {
    const plan::ComputeFit& fit = *machine.compute;
    add(row, "seconds_per_sample", fit.seconds_per_sample);
    add(row, "knee_samples", fit.knee_samples);
    add(row, "overhead_s", fit.overhead_s);
    row["flat_seen"] = fit.flat_seen;
    row["slope_seen"] = fit.slope_seen;
    row["scatter"] = number(fit.scatter);
    row["lack_of_fit"] = number(fit.lack_of_fit);
  } else if (m.table.empty()) {
    row["seconds_per_sample"] = m.seconds_per_sample;
    row["knee_samples"] = m.knee_samples;
    row["overhead_s"] = m.overhead_s;
  }
  // In the place of the model, where there is one.
  for (const plan::ComputePoint& point : m.table)
    row["seconds_by_samples"].push_back({point.samples, point.seconds});
  for (std::size_t i = 0; i < m.contention.size(); ++i) {
    Json one{{"workers", m.contention[i].workers}};
    if (machine.communication) {
      add(one, "part", machine.communication->contention.at(i).part);
    } else {
      one["part"] = m.contention[i].part;
    }
    row["contention"].push_back(one);
  }
  row["communication"] = std::string(plan::name(m.communication.kind));
  if (machine.communication) {
    add(row, "delta_s", machine.communication->delta_s);
  } else if (m.communication.kind == plan::CommunicationKind::table) {
    row["seconds_by_workers"] = Json::array();
    for (const plan::CommunicationPoint& point : m.communication.table)
      row["seconds_by_workers"].push_back({point.workers, point.seconds});
  } else if (m.communication.kind != plan::CommunicationKind::unknown) {
    row["delta_s"] = plan::delta_seconds(m.communication);
  }
  if (m.communication.latency_s > 0) row["latency_s"] = m.communication.latency_s;
  std::vector<std::string> warnings;
  if (machine.compute) warnings = machine.compute->warnings;
  if (machine.communication) {
    warnings.insert(warnings.end(), machine.communication->warnings.begin(),
                    machine.communication->warnings.end());
  }
  row["warnings"] = warnings;
  return row;
}

Json row_of(const plan::UpdateFit& fit) {
  Json row{{"kind", "updates"}};
  add(row, "updates_at_infinity", fit.updates_at_infinity);
  add(row, "noise_sensitivity", fit.noise_sensitivity);
  row["scatter"] = number(fit.scatter);
  row["lack_of_fit"] = number(fit.lack_of_fit);
  row["trusted"] = fit.trusted;
  row["points"] = Json::array();
  for (const plan::EnvelopePoint& point : fit.envelope) {
    row["points"].push_back({{"batch", point.batch},
                             {"learning_rate", point.learning_rate},
                             {"runs", point.runs},
                             {"reached", point.reached},
                             {"updates", number(point.updates)},
                             {"fitted", number(point.fitted)},
                             {"residual", number(point.residual)}});
  }
  row["warnings"] = fit.warnings;
  return row;
}

Json row_of(const plan::BatchChoice& choice) {
  Json row{{"kind", "batch"}, {"workers", choice.workers}};
  add(row, "optimum", choice.optimum);
  row["batch"] = choice.batch;
  row["learning_rate"] = choice.learning_rate;
  add(row, "seconds", choice.seconds);
  row["low_batch"] = choice.low_batch;
  row["high_batch"] = choice.high_batch;
  const auto add_time = [&row](const std::string& key, const std::optional<plan::BatchTime>& time) {
    row[key + "_batch"] = time ? Json(time->batch) : Json(nullptr);
    row[key + "_seconds"] = time ? number(time->seconds) : Json(nullptr);
  };
  add_time("strong", choice.strong);
  add_time("weak", choice.weak);
  row["warnings"] = choice.warnings;
  return row;
}

Json answer_row(const Answers& answers, const std::string& command) {
  const LevelAnswer& hardest = answers.levels.back();
  const plan::BatchChoice& best = soonest(hardest);
  Json row{{"kind", "answer"},        {"metric", answers.metric},
           {"target", hardest.level}, {"workers", best.workers},
           {"batch", best.batch},     {"learning_rate", best.learning_rate}};
  add(row, "seconds", best.seconds);
  row["trusted"] = hardest.updates.trusted;
  row["command"] = command;
  row["warnings"] = best.warnings;
  return row;
}

}  // namespace

std::string answer_text(const Answers& answers) {
  const LevelAnswer& hardest = answers.levels.back();
  const plan::BatchChoice& best = soonest(hardest);
  std::string text = "soonest to " + answers.metric + " " + shortest(hardest.level) + ": " +
                     std::to_string(best.workers) + (best.workers == 1 ? " worker" : " workers") +
                     ", batch " + std::to_string(best.batch) + ", rate " +
                     short_text(best.learning_rate) + ": " + text_of(best.seconds, seconds_text);
  const char* before = "; ";
  for (const plan::BatchChoice& other : hardest.choices) {
    if (&other == &best) continue;
    const bool first = *before == ';';
    text += before + std::to_string(other.workers) +
            (!first               ? ""
             : other.workers == 1 ? " worker"
                                  : " workers") +
            (first && other.workers == 1 ? " takes " : " take ") +
            seconds_text(other.seconds.value);
    before = ", ";
  }
  if (!hardest.updates.trusted) return text + "; the law of updates is not trusted (see above)";
  return text + (best.warnings.empty() ? "" : "; see the warnings above");
}

void print(const Answers& answers, std::FILE* out) {
  std::fputc('\n', out);
  print_machine(answers.machine, out);
  for (const LevelAnswer& level : answers.levels) print_level(answers.metric, level, out);
  for (const Answers::Without& line : answers.without)
    std::fprintf(out, "\nno answer: %s\n", line.why.c_str());
  std::fflush(out);
}

void add_rows(const Answers& answers, const std::string& command, Rows& rows) {
  if (!answers.levels.empty()) rows.add(answer_row(answers, command));
  rows.add(row_of(answers.machine));
  for (const LevelAnswer& level : answers.levels) {
    const auto add_row = [&](Json row) {
      row["metric"] = answers.metric;
      row["target"] = level.level;
      rows.add(row);
    };
    add_row(row_of(level.updates));
    for (const plan::BatchChoice& choice : level.choices) add_row(row_of(choice));
  }
  for (const Answers::Without& line : answers.without) {
    Json row{{"kind", "without"}, {"metric", answers.metric}, {"target", line.level}};
    row["workers"] = line.workers > 0 ? Json(line.workers) : Json(nullptr);
    row["why"] = line.why;
    rows.add(row);
  }
}

}  // namespace convoy::cli
