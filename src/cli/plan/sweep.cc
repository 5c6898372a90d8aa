#include "cli/plan/sweep.h"

#include <algorithm>
#include <functional>

#include "base/toml_text.h"
#include "cli/plan/measure.h"
#include "cli/plan/rates.h"
#include "cli/plan/sweep_times.h"
#include "cli/plan/unlike_hosts.h"
#include "cli/plan/untrained.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

using plan::Candidate;

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
        return measure_one_exchange(planned_, folder_, fewest_timed(best.size), deadline, out_);
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
      for (const std::int64_t count : measurable_workers(sweep_))
        candidates.push_back({Candidate::Kind::communication, count, kTime});
    }
    return candidates;
  }

  // The batch of so many workers that was timed least often. One that was not timed at all by now
  // is left out: trainings with it have failed (measure_communication).
  Exchange fewest_timed(std::int64_t workers) const {
    std::vector<Exchange> all = exchanges_of(sweep_, folder_.points(), workers);
    const auto count = [&](const Exchange& exchange) {
      const auto& times = folder_.points().communication;
      return std::count_if(times.begin(), times.end(), [&](const auto& time) {
        return time.workers == workers && time.batch == exchange.batch && is_of_whole_update(time);
      });
    };
    const auto timed = [&](const Exchange& exchange) { return count(exchange) > 0; };
    if (std::any_of(all.begin(), all.end(), timed)) std::erase_if(all, std::not_fn(timed));
    return *std::min_element(all.begin(), all.end(), [&](const Exchange& a, const Exchange& b) {
      return count(a) < count(b);
    });
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

}  // namespace

FailedBatches measure(const Planned& planned, const Sweep& sweep, PlanFolder& folder,
                      std::FILE* out) {
  FailedBatches failed{sweep.batches.size()};
  const Deadline& deadline = sweep.limits.deadline;
  if (folder.points().runs.empty()) {
    check_untrained(planned, folder, sweep.batches.front(), sweep.workplace.places.front(),
                    deadline, out);
  }
  SweepTimes times(planned, sweep, folder, out);
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
