#include "cli/plan/sweep.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/plan/measure.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using plan::Candidate;

// Numbers of workers that there are cores for.
std::vector<std::int64_t> measurable(const Sweep& sweep) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : sweep.workers) {
    if (count > 1 && count <= static_cast<std::int64_t>(sweep.cores.size()))
      counts.push_back(count);
  }
  // What more workers need is extrapolated from as many as there are cores for.
  const bool more = !sweep.workers.empty() &&
                    sweep.workers.back() > static_cast<std::int64_t>(sweep.cores.size());
  const auto most = static_cast<std::int64_t>(sweep.cores.size());
  if (more && most > 1 && (counts.empty() || counts.back() != most)) counts.push_back(most);
  return counts;
}

// Of the batches, the one in the middle: what each worker has while communication is timed.
std::int64_t samples_each(const Sweep& sweep) {
  const std::int64_t batch = sweep.batches[sweep.batches.size() / 2];
  const auto most = static_cast<std::int64_t>(sweep.cores.size());
  return std::max<std::int64_t>(1, batch / most);
}

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

std::uint64_t next_seed(const plan::PlanPoints& points, std::int64_t batch, double rate) {
  std::uint64_t seed = 1;
  while (points.has(batch, rate, seed)) ++seed;
  return seed;
}

class Budgeted {
 public:
  Budgeted(const Planned& planned, const Sweep& sweep, PlanFolder& folder, std::FILE* out)
      : planned_(planned), sweep_(sweep), folder_(folder), out_(out) {}

  // Whether there is enough to see what would say more.
  bool ready() const {
    try {
      plan::fit_updates(hardest(), {.rounds = 39});
      return true;
    } catch (const UsageError&) {
      return false;
    }
  }

  // One round of measurements. False: there is none to make.
  bool measure_next() {
    const PlannedMachine machine = machine_of(sweep_, folder_.points());
    const plan::UpdateFit updates = plan::fit_updates(hardest());
    const std::vector<Candidate> candidates = list(machine, updates);
    // A machine that is given is exact: no time of it is worth measuring.
    const plan::ComputeFit exact;
    const auto suggestions =
        plan::next_measurements(updates, machine.compute ? *machine.compute : exact,
                                machine.communication ? &*machine.communication : nullptr,
                                machine.machine, sweep_.workers.back(), candidates);
    if (suggestions.empty()) return false;
    const Candidate& first = candidates[suggestions.front().candidate];
    if (first.kind == Candidate::Kind::time) {
      measure_one_time(planned_, folder_, first.size, sweep_.cores, out_);
    } else if (first.kind == Candidate::Kind::communication) {
      measure_one_exchange(planned_, folder_, first.size, samples_each(sweep_), sweep_.cores, out_);
    } else {
      run(candidates, suggestions, updates);
    }
    return true;
  }

 private:
  std::vector<plan::UpdateRun> hardest() const {
    return folder_.points().updates(planned_.goal.hardest());
  }

  std::vector<Candidate> list(const PlannedMachine& machine, const plan::UpdateFit& updates) const {
    constexpr double kTime = 5;  // seconds of a training that is timed, about
    std::vector<Candidate> candidates;
    const auto costs = costs_of_runs(folder_.points());
    for (const plan::EnvelopePoint& point : updates.envelope) {
      const auto cost = costs.find(point.batch);
      if (cost != costs.end() && point.reached > 0)
        candidates.push_back({Candidate::Kind::updates, point.batch, cost->second});
    }
    if (machine.compute) {
      for (const std::int64_t batch : sweep_.timed)
        candidates.push_back({Candidate::Kind::time, batch, kTime});
    }
    if (machine.communication) {
      for (const std::int64_t count : measurable(sweep_))
        candidates.push_back({Candidate::Kind::communication, count, kTime});
    }
    return candidates;
  }

  // The best runs, one for each core.
  void run(const std::vector<Candidate>& candidates,
           const std::vector<plan::Suggestion>& suggestions, const plan::UpdateFit& updates) {
    std::vector<WantedRun> wanted;
    for (const plan::Suggestion& suggestion : suggestions) {
      const Candidate& candidate = candidates[suggestion.candidate];
      if (candidate.kind != Candidate::Kind::updates || wanted.size() == sweep_.cores.size())
        continue;
      for (const plan::EnvelopePoint& point : updates.envelope) {
        if (point.batch != candidate.size) continue;
        wanted.push_back({point.batch, point.learning_rate,
                          next_seed(folder_.points(), point.batch, point.learning_rate)});
      }
    }
    measure_runs(planned_, folder_, wanted, sweep_.limits, sweep_.cores, out_);
  }

  const Planned& planned_;
  const Sweep& sweep_;
  PlanFolder& folder_;
  std::FILE* out_;
};

void measure_grid(const Planned& planned, const Sweep& sweep, int seeds, PlanFolder& folder,
                  std::FILE* out) {
  for (int seed = 1; seed <= seeds; ++seed) {
    std::vector<WantedRun> wanted;
    for (const std::int64_t batch : sweep.batches) {
      for (const double rate : sweep.rates)
        wanted.push_back({batch, rate, static_cast<std::uint64_t>(seed)});
    }
    measure_runs(planned, folder, wanted, sweep.limits, sweep.cores, out);
  }
}

}  // namespace

PlannedMachine machine_of(const Sweep& sweep, const plan::PlanPoints& points) {
  if (!sweep.machine) return fit_machine(points);
  return {{*sweep.machine, {}, {}}, std::nullopt, std::nullopt};
}

void measure(const Planned& planned, const Sweep& sweep, PlanFolder& folder, std::FILE* out) {
  if (!sweep.machine) {
    measure_compute(planned, folder, sweep.timed, sweep.repetitions, sweep.cores, out);
    measure_communication(planned, folder, measurable(sweep), samples_each(sweep),
                          sweep.repetitions, sweep.cores, out);
  }
  if (!sweep.limits.deadline) return measure_grid(planned, sweep, sweep.seeds, folder, out);
  Budgeted budgeted(planned, sweep, folder, out);
  for (int seeds = 1; seeds == 1 || (seeds <= sweep.seeds && !budgeted.ready()); ++seeds)
    measure_grid(planned, sweep, seeds, folder, out);
  bool more = budgeted.ready();
  while (more && Clock::now() < *sweep.limits.deadline) more = budgeted.measure_next();
}

}  // namespace convoy::cli
