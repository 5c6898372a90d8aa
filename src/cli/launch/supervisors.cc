#include "cli/launch/supervisors.h"

#include <algorithm>
#include <utility>

#include "convoy/base/system.h"

namespace convoy::cli {

Supervisors::Supervisors(std::string token) : token_(std::move(token)), host_(host_name()) {}

Supervisors::State Supervisors::state_of(const Report& supervised) {
  const auto process = find_process(supervised.supervisor);
  if (!process) return State::gone;
  auto known = ours_.find(*process);
  if (known == ours_.end()) {
    // Not again, once it may hang.
    const std::vector<std::string> arguments = arguments_of(process->pid);
    const bool ours = std::find(arguments.begin(), arguments.end(), token_) != arguments.end();
    known = ours_.emplace(*process, ours).first;
  }
  return known->second ? State::alive : State::another_process;
}

std::map<int, const Report*> Supervisors::missing(const std::vector<Report>& reports) {
  std::map<int, const Report*> missing;
  for (const Report& report : reports) {
    if (report.kind != Report::Kind::supervised) {
      missing.erase(report.rank);
    } else if (state_of(report) == State::alive) {
      seen_alive_.insert(report.rank);
    } else if (seen_alive_.count(report.rank) > 0) {
      missing[report.rank] = &report;
    }
  }
  return missing;
}

std::optional<std::vector<pid_t>> Supervisors::all_here(const std::vector<Report>& reports,
                                                        int ranks) {
  std::vector<pid_t> pids;
  int known = 0;
  for (const Report& report : reports) {
    if (report.kind != Report::Kind::supervised) continue;
    const State state = state_of(report);
    if (report.host != host_ || state == State::another_process) return std::nullopt;
    ++known;
    if (state == State::alive) pids.push_back(report.supervisor);
  }
  if (known < ranks) return std::nullopt;
  return pids;
}

}  // namespace convoy::cli
