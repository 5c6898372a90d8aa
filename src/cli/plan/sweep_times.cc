#include "cli/plan/sweep_times.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

// M_T, as far as times tell it.
double knee_of(const plan::PlanPoints& points) {
  try {
    return plan::fit_compute(points.times, {.rounds = 39}).knee_samples.value;  // no interval
  } catch (const UsageError&) {
    return 1;  // there are too few yet
  }
}

// How many of `wanted` repetitions of each there are; `is_one` tells whether a sample is one.
template <class Sample, class Size, class IsOne>
std::int64_t measured(const std::vector<Sample>& samples, const std::vector<Size>& sizes,
                      int wanted, const IsOne& is_one) {
  std::int64_t sum = 0;
  for (const Size& size : sizes) {
    sum += std::min<std::int64_t>(
        wanted, std::count_if(samples.begin(), samples.end(),
                              [&](const Sample& sample) { return is_one(sample, size); }));
  }
  return sum;
}

// What memory holds of so many workers' batches; the smallest where it holds none.
std::vector<std::int64_t> held_batches(const Sweep& sweep, std::int64_t workers) {
  std::vector<std::int64_t> batches = sweep.batches;
  while (sweep.memory_samples > 0 && batches.size() > 1 &&
         batches.back() > sweep.memory_samples * workers)
    batches.pop_back();
  return batches;
}

// Shares of a batch, of the most workers that are timed.
std::vector<double> shares_of_exchanges(const Sweep& sweep, double knee, bool several) {
  const std::int64_t most = measurable_workers(sweep).back();
  const std::vector<std::int64_t> batches = held_batches(sweep, most);
  const std::vector<std::int64_t> wanted =
      several ? ends_of_exchange(batches, knee, most)
              : std::vector<std::int64_t>{batch_of_exchange(batches, knee, most)};
  std::vector<double> shares;
  for (const std::int64_t batch : wanted)
    shares.push_back(static_cast<double>(batch) / static_cast<double>(most));
  return shares;
}

}  // namespace

std::vector<std::int64_t> measurable_workers(const Sweep& sweep) {
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

std::vector<Exchange> exchanges_of(const Sweep& sweep, const plan::PlanPoints& points,
                                   std::int64_t workers) {
  const Place place = sweep.workplace.place(static_cast<int>(workers));
  const bool several = place.host_workers() > 1;
  const std::size_t count = several ? 2 : 1;
  const auto known = batches_of_exchanges(points, sweep.batches);
  std::vector<std::int64_t> batches;
  if (const auto found = known.find(workers); found != known.end()) batches = found->second;
  if (batches.size() < count) {
    std::vector<double> shares = shares_of_exchanges(sweep, knee_of(points), several);
    const auto other = std::find_if(known.rbegin(), known.rend(), [&](const auto& one) {
      return one.first != workers && one.second.size() == count;
    });
    if (other != known.rend()) {
      shares.clear();
      for (const std::int64_t batch : {other->second.front(), other->second.back()})
        shares.push_back(static_cast<double>(batch) / static_cast<double>(other->first));
    }
    const std::vector<std::int64_t> held = held_batches(sweep, workers);
    std::vector<std::int64_t> wanted;
    for (const double share : shares) wanted.push_back(batch_of_share(held, share, workers));
    if (batches.empty()) {
      batches = {wanted.front(), wanted.back()};
    } else {
      // With one that is there, whichever is farther from it tells more.
      const auto far = [&](std::int64_t batch) {
        return std::fabs(
            std::log(static_cast<double>(batch) / static_cast<double>(batches.front())));
      };
      batches.push_back(far(wanted.back()) >= far(wanted.front()) ? wanted.back() : wanted.front());
    }
    std::sort(batches.begin(), batches.end());
  }
  std::vector<Exchange> exchanges{{batches.front(), place}};
  if (batches.back() != batches.front()) exchanges.push_back({batches.back(), place});
  return exchanges;
}

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

void SweepTimes::measure() {
  say_what_is_timed_anew();
  const Deadline& end = sweep_.limits.deadline;
  if (!end) return repeat(end);
  const auto now = Clock::now();
  const Deadline half = now + (*end - now) / 2;
  // Where a batch is refused, the others have to be timed more often.
  for (int times = 0; times < fewest(timed_.size(), kTimes);) {
    times = fewest(timed_.size(), kTimes);
    compute(times, end);
  }
  const int exchanged = fewest(exchanges().size(), kExchanges);
  exchange(exchanged, end);
  check_enough();
  repeat(half);
}

void SweepTimes::say_what_is_timed_anew() const {
  const auto& times = folder_.points().communication;
  const bool lacking = std::any_of(times.begin(), times.end(), [&](const auto& time) {
    const bool wanted = std::find(workers_.begin(), workers_.end(), time.workers) != workers_.end();
    // Those of before stay in the folder, beside what has been measured since.
    return wanted && std::none_of(times.begin(), times.end(), [&](const auto& other) {
             return other.workers == time.workers && is_of_whole_update(other);
           });
  });
  if (!lacking) return;
  std::fprintf(out_,
               "times of communication in the folder do not say how long whole updates took, as "
               "those of earlier versions: they do not count, and are measured anew\n");
  std::fflush(out_);
}

void SweepTimes::compute(int times, const Deadline& deadline) {
  measure_compute(planned_, folder_, timed_, times, sweep_.workplace.place(1), deadline, out_);
}

std::vector<Exchange> SweepTimes::exchanges() const {
  std::vector<Exchange> all;
  for (const std::int64_t workers : workers_) {
    for (Exchange& one : exchanges_of(sweep_, folder_.points(), workers))
      all.push_back(std::move(one));
  }
  return all;
}

void SweepTimes::exchange(int times, const Deadline& deadline) {
  measure_communication(planned_, folder_, exchanges(), sweep_.batches, times, deadline, out_);
}

void SweepTimes::repeat(const Deadline& deadline) {
  compute(sweep_.repetitions, deadline);
  exchange(sweep_.repetitions, deadline);
}

void SweepTimes::check_enough() const {
  if (!is_late(sweep_.limits.deadline)) return;
  const int times = fewest(timed_.size(), kTimes);
  const plan::PlanPoints points = points_of(sweep_, folder_.points());
  const auto is_of = [](const plan::CommunicationSample& time, const Exchange& exchange) {
    return time.workers == exchange.place.workers && time.batch == exchange.batch;
  };
  const auto is_timed = [&](const Exchange& exchange) {
    return std::any_of(points.communication.begin(), points.communication.end(),
                       [&](const auto& time) { return is_of(time, exchange); });
  };
  // With one of two batches there is an answer, too: in plans of before, and where the other fails.
  const std::vector<Exchange> all = exchanges();
  std::vector<Exchange> wanted = all;
  std::erase_if(wanted, [&](const Exchange& exchange) {
    const auto instead = [&](const Exchange& other) {
      return other.place.workers == exchange.place.workers && is_timed(other);
    };
    return !is_timed(exchange) && std::any_of(all.begin(), all.end(), instead);
  });
  const int repeated = fewest(wanted.size(), kExchanges);
  const std::int64_t done = measured(points.times, timed_, times,
                                     [](const plan::TimeSample& time, std::int64_t size) {
                                       return time.samples == size;
                                     }) +
                            measured(points.communication, wanted, repeated, is_of);
  const std::int64_t needed = times * static_cast<std::int64_t>(timed_.size()) +
                              repeated * static_cast<std::int64_t>(wanted.size());
  if (done >= needed) return;  // trainings may be there, too
  throw UsageError("--budget: it was used up before trainings to the target could begin: " +
                   std::to_string(done) + " of the " + std::to_string(needed) +
                   " times of updates that are needed are measured; --resume with another " +
                   "budget goes on, fewer --time batches or --machine FILE take less");
}

}  // namespace convoy::cli
