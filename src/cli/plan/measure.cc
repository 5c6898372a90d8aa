#include "cli/plan/measure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/median.h"
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

std::string samples_text(std::int64_t samples) {
  return std::to_string(samples) + (samples == 1 ? " sample" : " samples");
}

// With the next larger of `batches` where a worker's share is one that there is no training with.
bool measure_fitting_exchange(const Planned& planned, PlanFolder& folder, Exchange& exchange,
                              const std::vector<std::int64_t>& batches, const Deadline& deadline,
                              std::FILE* out) {
  for (;;) {
    try {
      return measure_one_exchange(planned, folder, exchange, deadline, out);
    } catch (const UsageError& refusal) {
      const auto larger = std::upper_bound(batches.begin(), batches.end(), exchange.batch);
      if (larger == batches.end()) {
        throw UsageError(std::string(refusal.what()) +
                         "; add a larger one to --batches, or plan for fewer --workers");
      }
      exchange.batch = *larger;
      std::fprintf(out, "%s; the next larger batch takes its place\n", refusal.what());
      std::fflush(out);
    }
  }
}

}  // namespace

std::optional<UpdateTimes> mean_times(const std::vector<TrialMetrics::Update>& updates,
                                      std::int64_t batch) {
  const bool counted = std::any_of(updates.begin(), updates.end(),
                                   [batch](const auto& update) { return update.samples == batch; });
  UpdateTimes sum;
  std::size_t count = 0;
  for (std::size_t i = kWarmUp; i < updates.size(); ++i) {
    if (counted && updates[i].samples != batch) continue;
    sum.seconds += updates[i].seconds;
    sum.exposed_communication += updates[i].exposed_communication;
    ++count;
  }
  const bool enough = (count >= kUpdates && sum.seconds >= kSeconds) ||
                      (count >= kFewest && sum.seconds >= kLongest);
  if (!enough) return std::nullopt;
  const auto n = static_cast<double>(count);
  return UpdateTimes{sum.seconds / n, sum.exposed_communication / n};
}

double mean_update_s(const std::vector<TrialMetrics::Update>& updates, std::int64_t batch) {
  const std::size_t first = updates.size() > 2 * kWarmUp ? kWarmUp : 0;
  const auto mean_of = [&](const auto& counts) {
    double sum = 0;
    int count = 0;
    for (std::size_t i = first; i < updates.size(); ++i) {
      if (!counts(updates[i])) continue;
      sum += updates[i].elapsed - (i > 0 ? updates[i - 1].elapsed : 0);
      ++count;
    }
    return count > 0 ? std::optional(sum / count) : std::nullopt;
  };
  const auto whole = [batch](const auto& update) { return update.samples == batch; };
  const bool counted = std::any_of(updates.begin(), updates.end(), whole);
  const auto counts = [&](const auto& update) { return !counted || whole(update); };
  const auto undisturbed =
      mean_of([&](const auto& update) { return counts(update) && !update.after_evaluation; });
  return undisturbed ? *undisturbed : mean_of(counts).value_or(0);
}

double seconds_until(const std::vector<TrialMetrics::Update>& updates, std::int64_t step,
                     std::int64_t batch) {
  if (updates.empty()) return 0;
  const auto last = std::find_if(updates.begin(), updates.end(),
                                 [step](const auto& update) { return update.step >= step; });
  const auto end = last == updates.end() ? last : last + 1;
  if (updates.size() == 1) return updates.front().elapsed;
  const double mean = mean_update_s(updates, batch);
  double seconds = mean;
  for (auto update = updates.begin() + 1; update < end; ++update)
    seconds += update->after_evaluation ? mean : update->elapsed - (update - 1)->elapsed;
  return seconds;
}

std::optional<UpdateTimes> time_updates(const Planned& planned, PlanFolder& folder,
                                        std::int64_t batch, const Place& place,
                                        const Deadline& deadline) {
  if (is_late(deadline)) return std::nullopt;
  const std::int64_t counted = planned.counts_samples ? batch : 0;
  Trial trial(planned.timed(batch), folder.new_run(), place, "");
  for (;;) {
    const bool goes_on = trial.poll();
    if (const auto times = mean_times(trial.metrics().updates(), counted)) return *times;
    if (!goes_on) {
      const std::string text =
          "timing updates of " + samples_text(batch) + " on " + std::to_string(place.workers) +
          (place.workers == 1 ? " worker" : " workers") + " failed: " + trial.complaint();
      if (trial.refused()) throw UsageError(text);
      throw TrialFailure(text);
    }
    if (is_late(deadline)) return std::nullopt;
    wait_a_little();
  }
}

bool measure_one_time(const Planned& planned, PlanFolder& folder, std::int64_t batch,
                      const Place& place, const Deadline& deadline, std::FILE* out) {
  const auto times = time_updates(planned, folder, batch, place, deadline);
  if (!times) return false;
  folder.add(plan::TimeSample{batch, times->seconds});
  std::fprintf(out, "update of %s: %s\n", samples_text(batch).c_str(),
               format_seconds(times->seconds).c_str());
  std::fflush(out);
  return true;
}

bool measure_one_exchange(const Planned& planned, PlanFolder& folder, const Exchange& exchange,
                          const Deadline& deadline, std::FILE* out) {
  const int workers = exchange.place.workers;
  const auto times = time_updates(planned, folder, exchange.batch, exchange.place, deadline);
  if (!times) return false;
  folder.add(plan::CommunicationSample{workers, std::max(times->exposed_communication, kLeast),
                                       exchange.batch, times->seconds,
                                       exchange.place.host_workers()});
  std::fprintf(out, "communication of %d workers: %s of an update's %s, of %s\n", workers,
               format_seconds(times->exposed_communication).c_str(),
               format_seconds(times->seconds).c_str(), samples_text(exchange.batch).c_str());
  std::fflush(out);
  return true;
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

void measure_compute(const Planned& planned, PlanFolder& folder, std::vector<std::int64_t>& batches,
                     int repetitions, const Place& place, const Deadline& deadline,
                     std::FILE* out) {
  for (int repetition = 1; repetition <= repetitions; ++repetition) {
    for (const std::int64_t batch : std::vector<std::int64_t>(batches)) {
      const auto& times = folder.points().times;
      const auto done = std::count_if(times.begin(), times.end(),
                                      [&](const auto& time) { return time.samples == batch; });
      if (done >= repetition) continue;
      std::string why;
      try {
        if (!measure_one_time(planned, folder, batch, place, deadline, out)) return;
        continue;
      } catch (const UsageError& refusal) {
        why = refusal.what();
      } catch (const TrialFailure& failure) {
        // Where hardly any batch is left it is no matter of its size.
        if (batches.size() <= 2) throw;
        why = failure.what();
      }
      std::erase(batches, batch);
      if (batches.size() < 2)
        throw UsageError(why + "; --time needs two batches that there is training with");
      std::fprintf(out, "updates of %s are left out: %s\n", samples_text(batch).c_str(),
                   why.c_str());
      std::fflush(out);
    }
  }
  for (;;) {
    const std::vector<std::int64_t> again = disturbed_times(folder.points(), repetitions);
    if (again.empty()) return;
    for (const std::int64_t batch : again) {
      if (is_late(deadline)) return;
      std::fprintf(out, "a time of %s is far off: measured again\n", samples_text(batch).c_str());
      if (!measure_one_time(planned, folder, batch, place, deadline, out)) return;
    }
  }
}

bool is_disturbed(const plan::PlanPoints& points, const Exchange& exchange, int repetitions) {
  constexpr double kNear = 0.1;
  std::vector<double> times;
  for (const plan::CommunicationSample& time : points.communication) {
    if (time.workers == exchange.place.workers && time.batch == exchange.batch && time.update_s > 0)
      times.push_back(time.update_s);
  }
  const auto all = static_cast<std::int64_t>(times.size());
  if (all < repetitions || all >= 2 * repetitions) return false;
  const double middle = median(times);
  const auto near = std::count_if(times.begin(), times.end(), [middle](double time) {
    return std::fabs(time - middle) <= kNear * middle;
  });
  return near < repetitions;
}

void measure_communication(const Planned& planned, PlanFolder& folder,
                           std::vector<Exchange> exchanges,
                           const std::vector<std::int64_t>& batches, int repetitions,
                           const Deadline& deadline, std::FILE* out) {
  std::set<int> failed;  // numbers of workers, with the larger batch
  const auto is_second = [&](const Exchange& exchange) {
    return &exchange != exchanges.data() &&
           (&exchange - 1)->place.workers == exchange.place.workers;
  };
  const auto left_out = [&](const Exchange& exchange) {
    return is_second(exchange) && failed.contains(exchange.place.workers);
  };
  // The smaller one takes the turns of the larger one that failed.
  const auto is_wanted = [&](const Exchange& exchange, int repetition) {
    return !left_out(exchange) &&
           (repetition <= repetitions || failed.contains(exchange.place.workers));
  };
  for (int repetition = 1; repetition <= 2 * repetitions; ++repetition) {
    for (Exchange& exchange : exchanges) {
      const auto& times = folder.points().communication;
      const auto done = std::count_if(times.begin(), times.end(), [&](const auto& time) {
        return time.workers == exchange.place.workers && time.batch == exchange.batch &&
               time.update_s > 0;
      });
      const bool again = repetition > repetitions && !left_out(exchange) &&
                         is_disturbed(folder.points(), exchange, repetitions);
      if (done >= repetition || (!is_wanted(exchange, repetition) && !again)) continue;
      if (again) {
        std::fprintf(out, "times of %s on %d workers are far apart: measured again\n",
                     samples_text(exchange.batch).c_str(), exchange.place.workers);
      }
      // One that memory does not hold, say. With the smaller one there is an answer.
      const auto leave_out = [&](const std::exception& why) {
        std::fprintf(out, "%s; updates of %d workers are timed with the smaller batch alone\n",
                     why.what(), exchange.place.workers);
        std::fflush(out);
        failed.insert(exchange.place.workers);
      };
      try {
        if (!measure_fitting_exchange(planned, folder, exchange, batches, deadline, out)) return;
      } catch (const TrialFailure& failure) {
        if (!is_second(exchange)) throw;
        leave_out(failure);
      } catch (const UsageError& refusal) {
        if (!is_second(exchange)) throw;
        leave_out(refusal);
      }
    }
  }
}

}  // namespace convoy::cli
