#include "convoy/plan/machine.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "convoy/base/names.h"
#include "plan/checks.h"
#include "plan/communication.h"

namespace convoy::plan {
namespace {

constexpr std::array<std::string_view, 7> kKinds = {"none", "constant", "server", "ring",
                                                    "tree", "table",    "unknown"};

void validate(const Communication& c) {
  check_not_negative("communication.delta_s", c.delta_s);
  check_not_negative("communication.gradient_bytes", c.gradient_bytes);
  check_not_negative("communication.bandwidth_bytes_per_s", c.bandwidth_bytes_per_s);
  check_not_negative("communication.latency_s", c.latency_s);
  if (c.delta_s > 0 && c.bandwidth_bytes_per_s > 0) {
    throw UsageError(
        "communication has both delta_s and bandwidth_bytes_per_s; give delta_s, or else "
        "gradient_bytes and bandwidth_bytes_per_s");
  }
  if ((c.gradient_bytes > 0) != (c.bandwidth_bytes_per_s > 0) && c.delta_s == 0) {
    throw UsageError(
        "communication.gradient_bytes and communication.bandwidth_bytes_per_s are given together");
  }
  const bool is_table = c.kind == CommunicationKind::table;
  if (is_table == c.table.empty()) {
    throw UsageError("communication.table is for the kind 'table', which needs one; the kind is '" +
                     std::string(name(c.kind)) + "'");
  }
  std::int64_t before = 1;
  for (const CommunicationPoint& point : c.table) {
    check_at_least("workers in communication.table (ascending)", point.workers, before + 1);
    check_positive("seconds in communication.table", point.seconds);
    before = point.workers;
  }
}

double from_table(const std::vector<CommunicationPoint>& table, std::int64_t workers) {
  const auto after = std::lower_bound(
      table.begin(), table.end(), workers,
      [](const auto& point, std::int64_t wanted) { return point.workers < wanted; });
  if (after != table.end() && after->workers == workers) return after->seconds;
  if (after == table.begin() || after == table.end()) {
    throw UsageError("communication between " + std::to_string(workers) +
                     " workers was not measured, only from " +
                     std::to_string(table.front().workers) + " to " +
                     std::to_string(table.back().workers) + "; measure it, or give a model");
  }
  const auto& [p0, s0] = *(after - 1);
  const auto& [p1, s1] = *after;
  const double part = std::log(static_cast<double>(workers) / static_cast<double>(p0)) /
                      std::log(static_cast<double>(p1) / static_cast<double>(p0));
  return s0 + part * (s1 - s0);
}

// Beyond the table each sample takes `seconds_per_sample`, if that is known.
double from_table(const std::vector<ComputePoint>& table, double samples,
                  double seconds_per_sample) {
  if (samples <= static_cast<double>(table.front().samples)) return table.front().seconds;
  const auto after = std::lower_bound(
      table.begin(), table.end(), samples,
      [](const auto& point, double wanted) { return static_cast<double>(point.samples) < wanted; });
  if (after == table.end() && seconds_per_sample > 0) {
    const ComputePoint& last = table.back();
    return last.seconds + seconds_per_sample * (samples - static_cast<double>(last.samples));
  }
  if (after == table.end()) {
    throw UsageError("an update of " + shortest(samples) +
                     " samples per worker was not measured, only up to " +
                     std::to_string(table.back().samples));
  }
  const auto& [m0, s0] = *(after - 1);
  const auto& [m1, s1] = *after;
  const double part = (samples - static_cast<double>(m0)) / static_cast<double>(m1 - m0);
  return s0 + part * (s1 - s0);
}

}  // namespace

std::string_view name(CommunicationKind kind) { return kKinds.at(static_cast<std::size_t>(kind)); }

CommunicationKind communication_kind(const std::string& wanted) {
  const auto found = std::find(kKinds.begin(), kKinds.end(), wanted);
  if (found != kKinds.end()) return static_cast<CommunicationKind>(found - kKinds.begin());
  const std::string near = nearest_name(wanted, {kKinds.begin(), kKinds.end()});
  throw UsageError("'" + wanted + "' is no kind of communication" +
                   (near.empty() ? "" : "; did you mean '" + near + "'?") +
                   " There are none, constant, server, ring, tree, table and unknown");
}

double delta_seconds(const Communication& c) {
  if (c.kind == CommunicationKind::none || c.kind == CommunicationKind::table ||
      c.kind == CommunicationKind::unknown)
    return 0;
  return c.bandwidth_bytes_per_s > 0 ? c.gradient_bytes / c.bandwidth_bytes_per_s : c.delta_s;
}

double communication_at(const Communication& c, double p) {
  const double delta = delta_seconds(c);
  switch (c.kind) {
    case CommunicationKind::constant:
      return delta + c.latency_s;
    case CommunicationKind::server:
      return (delta + c.latency_s) * p;
    case CommunicationKind::ring:
      return delta * 2 * (p - 1) / p + c.latency_s * 2 * (p - 1);
    case CommunicationKind::tree:
      return (delta + c.latency_s) * std::log2(p);
    case CommunicationKind::none:
    case CommunicationKind::table:
    case CommunicationKind::unknown:
      return 0;
  }
  return 0;
}

double communication_seconds(const Communication& c, std::int64_t workers) {
  check_workers(workers);
  validate(c);
  if (workers == 1) return 0;
  if (c.kind == CommunicationKind::unknown) {
    throw UsageError("nothing is known of communication between " + std::to_string(workers) +
                     " workers; measure it, or describe it in [communication] (kind = \"none\" is "
                     "communication that takes no time)");
  }
  return c.kind == CommunicationKind::table ? from_table(c.table, workers)
                                            : communication_at(c, static_cast<double>(workers));
}

double contention_at(const std::vector<ContentionPoint>& contention, double workers) {
  ContentionPoint before{1, 0};
  for (const ContentionPoint& point : contention) {
    if (workers <= static_cast<double>(point.workers)) {
      const double part = (workers - static_cast<double>(before.workers)) /
                          static_cast<double>(point.workers - before.workers);
      return before.part + part * (point.part - before.part);
    }
    before = point;
  }
  return before.part;
}

void validate(const Machine& machine) {
  if (machine.table.empty()) {
    check_positive("compute.seconds_per_sample", machine.seconds_per_sample);
    check_positive("compute.knee_samples", machine.knee_samples);
  } else {
    check_not_negative("compute.seconds_per_sample", machine.seconds_per_sample);
    check_not_negative("compute.knee_samples", machine.knee_samples);
  }
  check_not_negative("compute.overhead_s", machine.overhead_s);
  check_at_least("compute.memory_samples", machine.memory_samples, 0);
  check_positive("compute.processor_share", machine.processor_share);
  if (machine.processor_share > 1) {
    refuse("compute.processor_share", shortest(machine.processor_share), "at most 1");
  }
  std::int64_t before = 0;
  for (const ComputePoint& point : machine.table) {
    check_at_least("samples in compute.table (ascending)", point.samples, before + 1);
    check_positive("seconds in compute.table", point.seconds);
    before = point.samples;
  }
  before = 1;
  for (const ContentionPoint& point : machine.contention) {
    check_at_least("workers in compute.contention (ascending)", point.workers, before + 1);
    check_not_negative("part in compute.contention", point.part);
    before = point.workers;
  }
  validate(machine.communication);
}

Machine of_equation_4(Machine machine) {
  if (machine.seconds_per_sample > 0) machine.table.clear();
  return machine;
}

std::int64_t most_samples(const Machine& machine) {
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (machine.memory_samples > 0) most = machine.memory_samples;
  const bool ends = !machine.table.empty() && machine.seconds_per_sample == 0;
  return ends ? std::min(most, machine.table.back().samples) : most;
}

double compute_seconds(const Machine& machine, double samples) {
  validate(machine);
  check_positive("the number of samples", samples);
  const double whole = machine.table.empty()
                           ? machine.overhead_s + machine.seconds_per_sample *
                                                      std::max(samples, machine.knee_samples)
                           : from_table(machine.table, samples, machine.seconds_per_sample);
  return whole / machine.processor_share;
}

double contention_part(const Machine& machine, std::int64_t workers) {
  check_workers(workers);
  validate(machine);
  return contention_at(machine.contention, static_cast<double>(workers));
}

double compute_seconds(const Machine& machine, double samples, std::int64_t workers) {
  return (1 + contention_part(machine, workers)) * compute_seconds(machine, samples);
}

double compute_seconds_with_validation(const Machine& machine, double samples,
                                       const Validation& validation) {
  check_at_least("the number of updates between validations", validation.every_updates, 1);
  check_at_least("the number of samples to validate", validation.samples, 1);
  check_positive("the time per sample of validation", validation.seconds_per_sample);
  const double updates = static_cast<double>(validation.every_updates);
  // Without equation 4 there is no knee: every sample counts.
  const double knee = machine.table.empty() ? machine.knee_samples : 1;
  return updates * compute_seconds(machine, samples) +
         validation.seconds_per_sample * std::max(static_cast<double>(validation.samples), knee) /
             machine.processor_share;
}

double seconds_per_update(const Machine& machine, std::int64_t batch, std::int64_t workers) {
  check_workers(workers);
  check_batch(static_cast<double>(batch), static_cast<double>(workers));
  const std::int64_t most = batch / workers + (batch % workers != 0 ? 1 : 0);
  return compute_seconds(machine, static_cast<double>(most), workers) +
         communication_seconds(machine.communication, workers);
}

}  // namespace convoy::plan
