#include "cli/plan/sweep_times.h"

#include <algorithm>
#include <string>
#include <tuple>

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

Exchange exchange_of(const Sweep& sweep, const plan::PlanPoints& points, std::int64_t workers) {
  const Place place = sweep.workplace.place(static_cast<int>(workers));
  const auto known = batches_of_exchanges(points, sweep.batches);
  if (const auto found = known.find(workers); found != known.end()) return {found->second, place};
  std::int64_t most = measurable_workers(sweep).back();
  std::int64_t batch = batch_of_exchange(sweep.batches, knee_of(points), most);
  if (!known.empty()) std::tie(most, batch) = *known.rbegin();
  const double share = static_cast<double>(batch) / static_cast<double>(most);
  return {batch_of_share(sweep.batches, share, workers), place};
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

void SweepTimes::compute(int times, const Deadline& deadline) {
  measure_compute(planned_, folder_, timed_, times, sweep_.workplace.place(1), deadline, out_);
}

void SweepTimes::exchange(int times, const Deadline& deadline) {
  std::vector<Exchange> together;
  for (const std::int64_t workers : workers_)
    together.push_back(exchange_of(sweep_, folder_.points(), workers));
  measure_communication(planned_, folder_, together, sweep_.batches, times, deadline, out_);
}

void SweepTimes::repeat(const Deadline& deadline) {
  compute(sweep_.repetitions, deadline);
  exchange(sweep_.repetitions, deadline);
}

void SweepTimes::check_enough() const {
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

}  // namespace convoy::cli
