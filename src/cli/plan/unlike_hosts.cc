#include "cli/plan/unlike_hosts.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cli/plan/measure.h"
#include "cli/plan/numbers.h"
#include "cli/plan/trial.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

// Those that workers are on, the first one first.
std::vector<std::string> names_of_hosts(const Sweep& sweep) {
  const Workplace& workplace = sweep.workplace;
  if (workplace.hosts.empty() || sweep.workers.empty()) return {};
  const std::int64_t workers = std::min<std::int64_t>(sweep.workers.back(), workplace.most());
  std::vector<std::string> names;
  for (const HostSlots& host : first_slots(workplace.hosts, static_cast<int>(workers))) {
    if (std::find(names.begin(), names.end(), host.name) == names.end()) names.push_back(host.name);
  }
  return names;
}

// By which times of it are kept.
std::string machine_of_host(const std::string& name) { return "host " + name; }

std::optional<double> mean_of_times(const std::vector<plan::TimeSample>& times,
                                    std::int64_t samples) {
  double sum = 0;
  int count = 0;
  for (const plan::TimeSample& time : times) {
    if (time.samples != samples) continue;
    sum += time.seconds;
    ++count;
  }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

const std::vector<plan::TimeSample>& times_of_host(const plan::PlanPoints& points,
                                                   const std::string& name) {
  static const std::vector<plan::TimeSample> none;
  const auto found = points.elsewhere.find(machine_of_host(name));
  return found == points.elsewhere.end() ? none : found->second.times;
}

struct TimedHost {
  std::string name;
  std::unique_ptr<Trial> trial;
};

}  // namespace

void time_other_hosts(const Planned& planned, const Sweep& sweep, std::int64_t samples,
                      PlanFolder& folder, std::FILE* out) {
  const std::vector<std::string> names = names_of_hosts(sweep);
  std::list<TimedHost> timed;
  for (const std::string& name : names) {
    if (name == names.front() || mean_of_times(times_of_host(folder.points(), name), samples))
      continue;
    const Place place{.workers = 1, .hosts = {{name, 1}}};
    timed.push_back(
        {name, std::make_unique<Trial>(planned.timed(samples), folder.new_run(), place, "")});
  }
  const std::string here = folder.points().machine;
  while (!timed.empty() && !is_late(sweep.limits.deadline)) {
    for (auto at = timed.begin(); at != timed.end();) {
      const bool goes_on = at->trial->poll();
      const auto times =
          mean_times(at->trial->metrics().updates(), planned.counts_samples ? samples : 0);
      if (!times && goes_on) {
        ++at;
        continue;
      }
      if (times) {
        folder.move_to(machine_of_host(at->name));
        folder.add(plan::TimeSample{samples, times->seconds});
        folder.move_to(here);
        std::fprintf(out, "update of %lld samples on host %s: %s\n",
                     static_cast<long long>(samples), at->name.c_str(),
                     format_seconds(times->seconds).c_str());
      } else {
        std::fprintf(out, "host %s could not be timed: %s\n", at->name.c_str(),
                     at->trial->complaint().c_str());
      }
      std::fflush(out);
      at = timed.erase(at);
    }
    if (!timed.empty()) wait_a_little();
  }
}

std::string warning_of_hosts(const Sweep& sweep, const plan::PlanPoints& points) {
  constexpr double kAlike = 1.1;
  const std::vector<std::string> names = names_of_hosts(sweep);
  std::string unlike;
  for (const std::string& name : names) {
    if (name == names.front()) continue;
    for (const plan::TimeSample& time : times_of_host(points, name)) {
      const std::optional<double> first = mean_of_times(points.times, time.samples);
      if (!first) continue;
      const double times = time.seconds / *first;
      if (times <= kAlike && times >= 1 / kAlike) continue;
      unlike += (unlike.empty() ? "" : ", ") + name + " takes " + short_text(times) +
                " times as long as " + names.front() + " for " + std::to_string(time.samples) +
                " samples";
    }
  }
  if (unlike.empty()) return "";
  return "hosts are unlike: " + unlike +
         "; an update waits for the slowest, and is predicted for workers like the first: name the "
         "slowest first in --hosts, or plan for hosts that are alike";
}

}  // namespace convoy::cli
