#include "cli/job/orphans.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace convoy::cli {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

}  // namespace

bool Orphans::end(const std::set<pid_t>& known) {
  const ProcessTree tree;
  struct Orphan {
    Process process;
    std::uint64_t parents_at;  // when the first of those above it was given up
  };
  std::vector<Orphan> all;
  for (const Process& child : tree.children(getpid())) {
    if (known.count(child.pid) == 0) all.push_back({child, kNever});
  }
  std::vector<pid_t> orphans;
  std::set<pid_t> waited_for;
  for (std::size_t next = 0; next < all.size(); ++next) {
    const Orphan orphan = all[next];
    const std::uint64_t at = given_up_at(orphan.process);
    if (at == kNever) {
      orphans.push_back(orphan.process.pid);
      // One that is given up may go on starting others. They are ended, but never all.
      if (orphan.process.started <= orphan.parents_at) waited_for.insert(orphan.process.pid);
    }
    for (const Process& child : tree.children(orphan.process.pid))
      all.push_back({child, std::min(at, orphan.parents_at)});
  }
  for (pid_t pid : leftovers_.end(orphans)) {
    give_up(pid);
    waited_for.erase(pid);
  }
  return !waited_for.empty();
}

std::uint64_t Orphans::given_up_at(const Process& process) const {
  const auto found = given_up_.find(process.pid);
  return found != given_up_.end() && found->second.process == process ? found->second.at : kNever;
}

void Orphans::give_up(pid_t pid) {
  const auto process = find_process(pid);
  if (!process || given_up_at(*process) != kNever) return;
  given_up_.insert_or_assign(pid, GivenUp{*process, ticks_now()});
  news_.push_back(pid);
}

std::vector<pid_t> Orphans::take_given_up() { return std::exchange(news_, {}); }

std::set<pid_t> Orphans::given_up() const {
  std::set<pid_t> found;
  for (const auto& [pid, given_up] : given_up_) {
    if (find_process(pid) == given_up.process) found.insert(pid);
  }
  return found;
}

bool Orphans::reaped(pid_t pid) { return given_up_.erase(pid) > 0; }

}  // namespace convoy::cli
