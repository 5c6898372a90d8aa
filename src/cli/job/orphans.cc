#include "cli/job/orphans.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace convoy::cli {

bool Orphans::end(const std::set<pid_t>& known) {
  std::vector<pid_t> orphans;
  const auto add = [&](pid_t pid) {
    if (given_up_.count(pid) == 0) orphans.push_back(pid);
  };
  for (pid_t child : children_of(getpid())) {
    if (known.count(child) > 0) continue;
    add(child);
    for (pid_t pid : descendants(child)) add(pid);
  }
  for (pid_t pid : leftovers_.end(orphans)) give_up(pid);
  // One that is given up may go on starting others. They are ended, but never all.
  std::set<pid_t> hopeless = given_up_;
  for (pid_t pid : given_up_) {
    for (pid_t started : descendants(pid)) hopeless.insert(started);
  }
  return std::any_of(orphans.begin(), orphans.end(),
                     [&](pid_t pid) { return hopeless.count(pid) == 0; });
}

void Orphans::give_up(pid_t pid) {
  if (given_up_.insert(pid).second) news_.push_back(pid);
}

std::vector<pid_t> Orphans::take_given_up() { return std::exchange(news_, {}); }

}  // namespace convoy::cli
