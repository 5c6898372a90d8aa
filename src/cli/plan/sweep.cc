#include "cli/plan/sweep.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/toml_text.h"
#include "cli/plan/measure.h"
#include "cli/plan/rates.h"
#include "cli/plan/unlike_hosts.h"
#include "cli/plan/untrained.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using plan::Candidate;

// Numbers of workers that there is room for.
std::vector<std::int64_t> measurable(const Sweep& sweep) {
  const std::int64_t most = sweep.workplace.most();
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : sweep.workers) {
    if (count > 1 && count <= most) counts.push_back(count);
  }
  // What more workers need is extrapolated from as many as there is room for.
  const bool more = !sweep.workers.empty() && sweep.workers.back() > most;
  if (more && most > 1 && (counts.empty() || counts.back() != most)) counts.push_back(most);
  return counts;
}

// M_T, as far as times tell it.
double knee_of(const plan::PlanPoints& points) {
  try {
    return plan::fit_compute(points.times, {.rounds = 39}).knee_samples.value;  // no interval
  } catch (const UsageError&) {
    return 1;  // there are too few yet
  }
}

// With the batch that communication between so many is known of already, if it still fits: M_T may
// have come out a little different since. Else with one that gives each worker what others have.
Exchange exchange_of(const Sweep& sweep, const plan::PlanPoints& points, std::int64_t workers) {
  const Place place = sweep.workplace.place(static_cast<int>(workers));
  const auto known = batches_of_exchanges(points, sweep.batches);
  if (const auto found = known.find(workers); found != known.end()) return {found->second, place};
  std::int64_t most = measurable(sweep).back();
  std::int64_t batch = batch_of_exchange(sweep.batches, knee_of(points), most);
  if (!known.empty()) std::tie(most, batch) = *known.rbegin();
  const double share = static_cast<double>(batch) / static_cast<double>(most);
  return {batch_of_share(sweep.batches, share, workers), place};
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

class Budgeted {
 public:
  // `timed`: batches that there is training with.
  Budgeted(const Planned& planned, const Sweep& sweep, const std::vector<std::int64_t>& timed,
           PlanFolder& folder, FailedBatches& failed, std::FILE* out)
      : planned_(planned),
        sweep_(sweep),
        timed_(timed),
        folder_(folder),
        failed_(failed),
        out_(out) {}

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
    if (!ready()) return false;  // a rate has diverged since
    const PlannedMachine machine = machine_of(sweep_, folder_.points());
    const plan::UpdateFit updates = plan::fit_updates(hardest());
    const std::vector<Candidate> candidates = list(machine, updates);
    // A machine that is given is exact: no time of it is worth measuring.
    const plan::ComputeFit exact;
    const auto suggestions =
        plan::next_measurements(updates, machine.compute ? *machine.compute : exact,
                                machine.communication ? &*machine.communication : nullptr,
                                machine.machine, sweep_.workers.back(), candidates);
    const Deadline& deadline = sweep_.limits.deadline;
    bool ran = false;
    for (const plan::Suggestion& suggestion : suggestions) {
      const Candidate& best = candidates[suggestion.candidate];
      if (best.kind == Candidate::Kind::time) {
        return measure_one_time(planned_, folder_, best.size, sweep_.workplace.place(1), deadline,
                                out_);
      }
      if (best.kind == Candidate::Kind::communication) {
        return measure_one_exchange(
            planned_, folder_, exchange_of(sweep_, folder_.points(), best.size), deadline, out_);
      }
      // Where no run is added, times can still be.
      if (!ran && run(candidates, suggestions, updates) > 0) return true;
      ran = true;
    }
    return false;
  }

 private:
  std::vector<plan::UpdateRun> hardest() const {
    return folder_.points().updates(planned_.goal.hardest());
  }

  std::vector<Candidate> list(const PlannedMachine& machine, const plan::UpdateFit& updates) const {
    constexpr double kTime = 5;  // seconds of a training that is timed, about
    std::vector<Candidate> candidates = candidate_runs(folder_.points(), planned_.goal, updates);
    if (machine.compute) {
      for (const std::int64_t batch : timed_)
        candidates.push_back({Candidate::Kind::time, batch, kTime});
    }
    if (machine.communication) {
      for (const std::int64_t count : measurable(sweep_))
        candidates.push_back({Candidate::Kind::communication, count, kTime});
    }
    return candidates;
  }

  // The best runs, one at each place. How many there were.
  int run(const std::vector<Candidate>& candidates,
          const std::vector<plan::Suggestion>& suggestions, const plan::UpdateFit& updates) {
    std::vector<WantedRun> wanted;
    for (const plan::Suggestion& suggestion : suggestions) {
      const Candidate& candidate = candidates[suggestion.candidate];
      if (candidate.kind != Candidate::Kind::updates || failed_.why.contains(candidate.size) ||
          wanted.size() == places_of_runs(sweep_).size())
        continue;
      for (const plan::EnvelopePoint& point : updates.envelope) {
        if (point.batch != candidate.size) continue;
        wanted.push_back(next(point.batch, point.learning_rate));
      }
    }
    return measure_runs(planned_, folder_, wanted, sweep_.limits, places_of_runs(sweep_), out_,
                        &failed_);
  }

  // With the first seed that there is no run of, or one that would go on.
  WantedRun next(std::int64_t batch, double rate) const {
    const std::int64_t longest = sweep_.limits.longest(planned_.samples, batch);
    WantedRun wanted{batch, rate, 1};
    while (const plan::PointRun* run = folder_.points().find(batch, rate, wanted.seed)) {
      if (would_go_on(*run, folder_.points(), planned_.goal, longest)) break;
      ++wanted.seed;
    }
    return wanted;
  }

  const Planned& planned_;
  const Sweep& sweep_;
  std::vector<std::int64_t> timed_;
  PlanFolder& folder_;
  FailedBatches& failed_;
  std::FILE* out_;
};

// Whether any run was added.
bool measure_grid(const Planned& planned, const Sweep& sweep, int seed, PlanFolder& folder,
                  FailedBatches& failed, std::FILE* out) {
  return measure_runs(planned, folder,
                      grid(sweep.batches, sweep.rates, static_cast<std::uint64_t>(seed)),
                      sweep.limits, places_of_runs(sweep), out, &failed) > 0;
}

// Before a budget is spent on further seeds of a rate that is not the best one.
bool measure_beyond(const Planned& planned, const Sweep& sweep, PlanFolder& folder,
                    FailedBatches& failed, std::FILE* out) {
  constexpr int kMost = 6;
  bool any = false;
  for (int i = 0; i < kMost && !is_late(sweep.limits.deadline); ++i) {
    const auto beyond = rate_beyond(folder.points(), planned.goal);
    if (!beyond) break;
    std::fprintf(out, "%s is the best rate with every batch, and the %s one: %s is tried, too\n",
                 shortest(beyond->end).c_str(), beyond->above ? "largest" : "smallest",
                 shortest(beyond->next).c_str());
    std::fflush(out);
    Sweep wider = sweep;
    wider.rates = {beyond->next};
    if (!measure_grid(planned, wider, 1, folder, failed, out)) break;
    any = true;
  }
  return any;
}

// How many of `wanted` repetitions of the sizes there are.
template <class Sample>
std::int64_t measured(const std::vector<Sample>& samples, std::int64_t Sample::*size,
                      const std::vector<std::int64_t>& sizes, int wanted) {
  std::int64_t sum = 0;
  for (const std::int64_t one : sizes) {
    sum += std::min<std::int64_t>(
        wanted, std::count_if(samples.begin(), samples.end(),
                              [&](const Sample& sample) { return sample.*size == one; }));
  }
  return sum;
}

class Times {
 public:
  Times(const Planned& planned, const Sweep& sweep, PlanFolder& folder, std::FILE* out)
      : planned_(planned),
        sweep_(sweep),
        folder_(folder),
        out_(out),
        timed_(sweep.timed),
        workers_(measurable(sweep)) {}

  // All of them; with a deadline, as many as the plan needs, and more in half of the time.
  void measure() {
    const Deadline& end = sweep_.limits.deadline;
    if (!end) return repeat(end);
    const auto now = Clock::now();
    const Deadline half = now + (*end - now) / 2;
    // Where a batch is refused, the others have to be timed more often.
    for (int times = 0; times < fewest(timed_.size(), kTimes);) {
      times = fewest(timed_.size(), kTimes);
      compute(times, end);
    }
    exchange(fewest(workers_.size(), kExchanges), end);
    check_enough();
    repeat(half);
  }

  // The batches that there is training with.
  const std::vector<std::int64_t>& timed() const { return timed_; }

 private:
  // What a machine is fitted to.
  static constexpr std::size_t kTimes = 3, kExchanges = 2;

  // Repetitions of so many sizes that make `needed` measurements.
  static int fewest(std::size_t sizes, std::size_t needed) {
    return sizes == 0 ? 0 : static_cast<int>((needed + sizes - 1) / sizes);
  }

  void compute(int times, const Deadline& deadline) {
    measure_compute(planned_, folder_, timed_, times, sweep_.workplace.place(1), deadline, out_);
  }
  void exchange(int times, const Deadline& deadline) {
    std::vector<Exchange> together;
    for (const std::int64_t workers : workers_)
      together.push_back(exchange_of(sweep_, folder_.points(), workers));
    measure_communication(planned_, folder_, together, sweep_.batches, times, deadline, out_);
  }
  void repeat(const Deadline& deadline) {
    compute(sweep_.repetitions, deadline);
    exchange(sweep_.repetitions, deadline);
  }

  void check_enough() const {
    if (!is_late(sweep_.limits.deadline)) return;
    const int times = fewest(timed_.size(), kTimes);
    const int exchanges = fewest(workers_.size(), kExchanges);
    const plan::PlanPoints points = points_of(sweep_, folder_.points());
    const std::int64_t done =
        measured(points.times, &plan::TimeSample::samples, timed_, times) +
        measured(points.communication, &plan::CommunicationSample::workers, workers_, exchanges);
    const std::int64_t needed = times * static_cast<std::int64_t>(timed_.size()) +
                                exchanges * static_cast<std::int64_t>(workers_.size());
    if (done >= needed) return;  // trainings may be there, too
    throw UsageError("--budget: it was used up before trainings to the target could begin: " +
                     std::to_string(done) + " of the " + std::to_string(needed) +
                     " times of updates that are needed are measured; --resume with another " +
                     "budget goes on, fewer --time batches or --machine FILE take less");
  }

  const Planned& planned_;
  const Sweep& sweep_;
  PlanFolder& folder_;
  std::FILE* out_;
  std::vector<std::int64_t> timed_, workers_;
};

// Times of another machine are measured again. Those of this one may have a name of before.
void choose_machine(const Sweep& sweep, PlanFolder& folder, std::FILE* out) {
  const std::string before = folder.points().machine;
  const std::string here = sweep.workplace.name();
  if (sweep.workplace.was(before)) return;
  if (!before.empty() && before != here) {
    std::fprintf(out,
                 "the times in the folder are of another machine, %s; those of this one, %s, count "
                 "from now on\n",
                 before.c_str(), here.c_str());
    std::fflush(out);
  }
  folder.move_to(here);
}

}  // namespace

std::int64_t batch_of_exchange(const std::vector<std::int64_t>& batches, double knee,
                               std::int64_t workers) {
  const double least = std::max(knee, 1.0) * static_cast<double>(workers);
  const auto first = std::find_if(batches.begin(), batches.end(), [least](std::int64_t batch) {
    return static_cast<double>(batch) >= least;
  });
  const std::int64_t batch =
      first == batches.end() ? batches.back() : *(first + (batches.end() - first - 1) / 2);
  return std::max(batch, workers);
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

std::map<std::int64_t, std::int64_t> batches_of_exchanges(
    const plan::PlanPoints& points, const std::vector<std::int64_t>& batches) {
  std::map<std::int64_t, std::int64_t> known;
  for (const plan::CommunicationSample& time : points.communication) {
    const bool trained = std::find(batches.begin(), batches.end(), time.batch) != batches.end();
    if (trained || (time.batch == time.workers && batches.back() < time.workers))
      known[time.workers] = time.batch;
  }
  return known;
}

plan::PlanPoints points_of(const Sweep& sweep, plan::PlanPoints points) {
  const auto known = batches_of_exchanges(points, sweep.batches);
  std::erase_if(points.communication, [&known](const plan::CommunicationSample& time) {
    const auto found = known.find(time.workers);
    return found == known.end() || found->second != time.batch;
  });
  points.communication = plan::beyond_compute(std::move(points.communication), points.times);
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

FailedBatches measure(const Planned& planned, const Sweep& sweep, PlanFolder& folder,
                      std::FILE* out) {
  FailedBatches failed{sweep.batches.size()};
  const Deadline& deadline = sweep.limits.deadline;
  if (folder.points().runs.empty()) {
    check_untrained(planned, folder, sweep.batches.front(), sweep.workplace.places.front(),
                    deadline, out);
  }
  Times times(planned, sweep, folder, out);
  if (!sweep.machine) {
    choose_machine(sweep, folder, out);
    times.measure();
    if (!times.timed().empty())
      time_other_hosts(planned, sweep, times.timed()[times.timed().size() / 2], folder, out);
  }
  Budgeted budgeted(planned, sweep, times.timed(), folder, failed, out);
  const auto seeds = [&](int seed) {
    return seed <= sweep.seeds && (!deadline || seed == 1 || !budgeted.ready());
  };
  Sweep wider = sweep;  // with smaller batches
  const auto widen = [&] {
    const auto next = batch_below(sweep, folder.points(), planned.goal.hardest(), planned.samples);
    const auto& batches = wider.batches;
    if (!sweep.smaller_batches || !next ||
        std::find(batches.begin(), batches.end(), *next) != batches.end())
      return false;
    std::fprintf(out, "the best batch is smaller than all that were tried: %lld is tried, too\n",
                 static_cast<long long>(*next));
    std::fflush(out);
    wider.batches.insert(wider.batches.begin(), *next);
    failed.all = wider.batches.size();
    return true;
  };
  // A rate without hope may be wanted again when more is known of the others.
  for (bool more = true; more && !is_late(deadline);) {
    more = false;
    for (int seed = 1; seeds(seed); ++seed)
      more = measure_grid(planned, wider, seed, folder, failed, out) || more;
    if (!is_late(deadline) && widen()) {
      more = true;
      continue;  // it comes before what else there is to know of the others
    }
    if (deadline) more = measure_beyond(planned, sweep, folder, failed, out) || more;
    while (deadline && !is_late(deadline) && budgeted.measure_next()) more = true;
  }
  return failed;
}

}  // namespace convoy::cli
