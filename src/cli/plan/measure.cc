#include "cli/plan/measure.h"

#include <algorithm>
#include <map>

#include "cli/plan/trial.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

constexpr std::size_t kWarmUp = 5;
constexpr std::size_t kUpdates = 10, kFewest = 3;
constexpr double kSeconds = 0.5, kLongest = 10;
// Communication that is all hidden still counts as something: its logarithm is taken.
constexpr double kLeast = 1e-7;

}  // namespace

std::optional<UpdateTimes> mean_times(const std::vector<TrialMetrics::Update>& updates) {
  if (updates.size() < kWarmUp + kFewest) return std::nullopt;
  UpdateTimes sum;
  for (auto update = updates.begin() + kWarmUp; update != updates.end(); ++update) {
    sum.seconds += update->seconds;
    sum.exposed_communication += update->exposed_communication;
  }
  const std::size_t count = updates.size() - kWarmUp;
  const bool enough = (count >= kUpdates && sum.seconds >= kSeconds) || sum.seconds >= kLongest;
  if (!enough) return std::nullopt;
  const auto n = static_cast<double>(count);
  return UpdateTimes{sum.seconds / n, sum.exposed_communication / n};
}

UpdateTimes time_updates(const Planned& planned, PlanFolder& folder, std::int64_t batch, int ranks,
                         const std::vector<int>& cores) {
  Trial trial(planned.timed(batch), folder.new_run(), ranks, {cores.front()}, "");
  for (;;) {
    const bool goes_on = trial.poll();
    if (const auto times = mean_times(trial.metrics().updates())) return *times;
    if (!goes_on) {
      throw Failure("timing updates of " + std::to_string(batch) + " samples on " +
                    std::to_string(ranks) + (ranks == 1 ? " worker" : " workers") +
                    " failed: " + trial.complaint());
    }
    wait_a_little();
  }
}

void measure_one_time(const Planned& planned, PlanFolder& folder, std::int64_t batch,
                      const std::vector<int>& cores, std::FILE* out) {
  const UpdateTimes times = time_updates(planned, folder, batch, 1, cores);
  folder.add(plan::TimeSample{batch, times.seconds});
  std::fprintf(out, "update of %lld samples: %s\n", static_cast<long long>(batch),
               format_seconds(times.seconds).c_str());
  std::fflush(out);
}

void measure_one_exchange(const Planned& planned, PlanFolder& folder, std::int64_t workers,
                          std::int64_t samples_each, const std::vector<int>& cores,
                          std::FILE* out) {
  const UpdateTimes times =
      time_updates(planned, folder, samples_each * workers, static_cast<int>(workers), cores);
  folder.add(plan::CommunicationSample{workers, std::max(times.exposed_communication, kLeast)});
  std::fprintf(out, "communication of %lld workers: %s of an update's %s\n",
               static_cast<long long>(workers), format_seconds(times.exposed_communication).c_str(),
               format_seconds(times.seconds).c_str());
  std::fflush(out);
}

std::vector<std::int64_t> disturbed_times(const plan::PlanPoints& points, int repetitions) {
  if (points.times.size() < kFewest) return {};
  std::map<std::int64_t, int> all, odd;
  for (const plan::TimeSample& time : points.times) ++all[time.samples];
  for (const std::size_t i : plan::fit_compute(points.times).outliers)
    ++odd[points.times[i].samples];
  std::vector<std::int64_t> again;
  for (const auto& [samples, count] : odd) {
    if (all[samples] - count < repetitions && all[samples] < 2 * repetitions)
      again.push_back(samples);
  }
  return again;
}

void measure_compute(const Planned& planned, PlanFolder& folder,
                     const std::vector<std::int64_t>& batches, int repetitions,
                     const std::vector<int>& cores, std::FILE* out) {
  for (int repetition = 1; repetition <= repetitions; ++repetition) {
    for (const std::int64_t batch : batches) {
      const auto& times = folder.points().times;
      const auto done = std::count_if(times.begin(), times.end(),
                                      [&](const auto& time) { return time.samples == batch; });
      if (done < repetition) measure_one_time(planned, folder, batch, cores, out);
    }
  }
  for (;;) {
    const std::vector<std::int64_t> again = disturbed_times(folder.points(), repetitions);
    if (again.empty()) return;
    for (const std::int64_t batch : again) {
      std::fprintf(out, "a time of %lld samples is far off: measured again\n",
                   static_cast<long long>(batch));
      measure_one_time(planned, folder, batch, cores, out);
    }
  }
}

void measure_communication(const Planned& planned, PlanFolder& folder,
                           const std::vector<std::int64_t>& workers, std::int64_t samples_each,
                           int repetitions, const std::vector<int>& cores, std::FILE* out) {
  for (int repetition = 1; repetition <= repetitions; ++repetition) {
    for (const std::int64_t count : workers) {
      const auto& times = folder.points().communication;
      const auto done = std::count_if(times.begin(), times.end(),
                                      [&](const auto& time) { return time.workers == count; });
      if (count > 1 && done < repetition)
        measure_one_exchange(planned, folder, count, samples_each, cores, out);
    }
  }
}

}  // namespace convoy::cli
