// What a sweep makes of the points that there are.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "cli/plan/rates.h"
#include "cli/plan/sweep.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using plan::Candidate;

// Seconds of a run to the target, by batch.
std::map<std::int64_t, double> costs_of_runs(const plan::PlanPoints& points) {
  std::map<std::int64_t, std::pair<double, int>> sums;
  for (const plan::PointRun& run : points.runs) {
    if (run.diverged) continue;
    sums[run.batch].first += run.seconds;
    ++sums[run.batch].second;
  }
  std::map<std::int64_t, double> costs;
  for (const auto& [batch, sum] : sums) costs[batch] = std::max(sum.first / sum.second, 1e-3);
  return costs;
}

// The smallest that keeps workers busy, or the largest.
std::vector<std::int64_t>::const_iterator first_busy(const std::vector<std::int64_t>& batches,
                                                     double knee, std::int64_t workers) {
  const double least = std::max(knee, 1.0) * static_cast<double>(workers);
  const auto first = std::find_if(batches.begin(), batches.end(), [least](std::int64_t batch) {
    return static_cast<double>(batch) >= least;
  });
  return first == batches.end() ? batches.end() - 1 : first;
}

}  // namespace

std::int64_t batch_of_exchange(const std::vector<std::int64_t>& batches, double knee,
                               std::int64_t workers) {
  const auto first = first_busy(batches, knee, workers);
  return std::max(*(first + (batches.end() - first - 1) / 2), workers);
}

std::vector<std::int64_t> ends_of_exchange(const std::vector<std::int64_t>& batches, double knee,
                                           std::int64_t workers) {
  std::vector<std::int64_t> ends{std::max(*first_busy(batches, knee, workers), workers)};
  if (batches.back() > ends.front()) ends.push_back(batches.back());
  return ends;
}

std::int64_t batch_of_share(const std::vector<std::int64_t>& batches, double share,
                            std::int64_t workers) {
  const auto distance = [&](std::int64_t batch) {
    return std::fabs(std::log(static_cast<double>(batch) / (share * static_cast<double>(workers))));
  };
  const auto nearest =
      std::min_element(batches.begin(), batches.end(),
                       [&](std::int64_t a, std::int64_t b) { return distance(a) < distance(b); });
  return std::max(*nearest, workers);
}

plan::PlanPoints with_host_workers(plan::PlanPoints points) {
  constexpr std::string_view kHosts = "hosts ";  // Workplace::name
  if (!points.machine.starts_with(kHosts)) return points;
  std::vector<HostSlots> hosts;
  try {
    hosts = parse_hosts(points.machine.substr(kHosts.size()));
  } catch (const UsageError&) {
    return points;  // it is no name of ours
  }
  const std::int64_t most = total_slots(hosts);
  for (plan::CommunicationSample& time : points.communication) {
    if (time.host_workers > 0 || time.workers > most) continue;
    const auto workers = static_cast<int>(time.workers);
    const Place place{.workers = workers, .hosts = first_slots(hosts, workers)};
    time.host_workers = place.host_workers();
  }
  return points;
}

std::map<std::int64_t, std::vector<std::int64_t>> batches_of_exchanges(
    const plan::PlanPoints& points, const std::vector<std::int64_t>& batches) {
  std::map<std::int64_t, std::vector<std::int64_t>> known;
  const plan::PlanPoints all = with_host_workers(points);
  for (const plan::CommunicationSample& time : all.communication) {
    if (!is_of_whole_update(time)) continue;
    const bool trained = std::find(batches.begin(), batches.end(), time.batch) != batches.end();
    if (!trained && !(time.batch == time.workers && batches.back() < time.workers)) continue;
    std::vector<std::int64_t>& own = known[time.workers];
    if (time.host_workers == 1) own.clear();
    if (std::find(own.begin(), own.end(), time.batch) == own.end()) own.push_back(time.batch);
  }
  for (auto& [workers, own] : known) std::sort(own.begin(), own.end());
  return known;
}

plan::PlanPoints points_of(const Sweep& sweep, plan::PlanPoints points) {
  points = with_host_workers(std::move(points));
  const auto known = batches_of_exchanges(points, sweep.batches);
  std::erase_if(points.communication, [&known](const plan::CommunicationSample& time) {
    if (!is_of_whole_update(time)) return true;
    const auto found = known.find(time.workers);
    if (found == known.end()) return true;
    const std::vector<std::int64_t>& own = found->second;
    return std::find(own.begin(), own.end(), time.batch) == own.end();
  });
  return points;
}

std::optional<std::int64_t> batch_below(const Sweep& sweep, const plan::PlanPoints& points,
                                        double level, std::int64_t largest) {
  try {
    const plan::UpdateFit updates = plan::fit_updates(points.updates(level), {.rounds = 39});
    const auto smallest =
        std::find_if(updates.envelope.begin(), updates.envelope.end(),
                     [](const plan::EnvelopePoint& point) { return point.reached > 0; });
    if (smallest == updates.envelope.end() || !(updates.law.updates_at_infinity > 0))
      return std::nullopt;
    const plan::Machine machine = machine_of(sweep, points).machine.machine;
    for (const std::int64_t workers : sweep.workers) {
      if (workers >= smallest->batch || workers > largest) continue;
      const std::int64_t best = plan::best_batch(updates.law, machine, workers, largest).batch;
      if (best < smallest->batch) return std::max<std::int64_t>(smallest->batch / 4, 1);
    }
  } catch (const UsageError&) {
    // There are too few runs, or times.
  }
  return std::nullopt;
}

std::vector<Candidate> candidate_runs(const plan::PlanPoints& points, const Goal& goal,
                                      const plan::UpdateFit& updates) {
  std::vector<Candidate> candidates;
  const auto costs = costs_of_runs(points);
  for (const plan::EnvelopePoint& point : updates.envelope) {
    const auto cost = costs.find(point.batch);
    if (cost == costs.end() || point.reached == 0 ||
        is_hopeless(points, goal, point.batch, point.learning_rate))
      continue;
    candidates.push_back({Candidate::Kind::updates, point.batch, cost->second});
  }
  return candidates;
}

std::vector<Place> places_of_runs(const Sweep& sweep) {
  std::vector<Place> places = sweep.workplace.places;
  const auto most = static_cast<std::size_t>(sweep.jobs);
  if (most > 0 && most < places.size()) places.resize(most);
  return places;
}

PlannedMachine machine_of(const Sweep& sweep, const plan::PlanPoints& points) {
  PlannedMachine planned{{}, std::nullopt, std::nullopt};
  if (sweep.machine) {
    planned.machine.machine = *sweep.machine;
  } else {
    planned = fit_machine(points_of(sweep, points));
  }
  if (sweep.memory_samples > 0) planned.machine.machine.memory_samples = sweep.memory_samples;
  return planned;
}

}  // namespace convoy::cli
