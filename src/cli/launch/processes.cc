#include "cli/launch/processes.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "convoy/base/clock.h"

namespace convoy::cli {
namespace {

constexpr std::chrono::milliseconds kPause{5};
// See Leftovers.
constexpr std::chrono::milliseconds kNothing{0};
constexpr std::chrono::milliseconds kAlone{4000};
constexpr std::chrono::milliseconds kTold{1000};

// Living processes by parent.
std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return children;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 0) continue;
    std::ifstream file(std::string("/proc/") + entry->d_name + "/stat");
    std::string stat;
    std::getline(file, stat);
    // The name in parentheses may itself hold spaces and parentheses: the last one ends it.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos || name_end + 4 > stat.size()) continue;
    if (stat[name_end + 2] == 'Z') continue;
    children.emplace(static_cast<pid_t>(std::atoi(stat.c_str() + name_end + 4)), pid);
  }
  closedir(proc);
  return children;
}

// A supervisor of `convoy run`, or the mpirun that has it in its arguments.
bool is_of_ranks(pid_t pid) {
  const std::vector<std::string> arguments = arguments_of(pid);
  return std::any_of(arguments.begin(), arguments.end(), [](const std::string& argument) {
    return argument.ends_with("/convoy-agent");
  });
}

void reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

std::vector<pid_t> descendants(pid_t root) {
  const auto children = children_by_parent();
  std::vector<pid_t> found{root};
  for (std::size_t next = 0; next < found.size(); ++next) {
    const auto [begin, end] = children.equal_range(found[next]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  const auto children = children_by_parent();
  const auto [begin, end] = children.equal_range(parent);
  std::vector<pid_t> found;
  for (auto child = begin; child != end; ++child) found.push_back(child->second);
  return found;
}

std::vector<std::string> arguments_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

bool kill_descendants(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (true) {
    const std::vector<pid_t> left = descendants(getpid());
    for (pid_t pid : left) kill(pid, SIGKILL);
    reap();
    if (left.empty()) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
}

bool await_descendants(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  while (true) {
    reap();
    if (descendants(getpid()).empty()) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
}

void Leftovers::end(const std::vector<pid_t>& left) {
  const auto now = Clock::now();
  const auto alone = std::any_of(left.begin(), left.end(), is_of_ranks) ? kAlone : kNothing;
  for (pid_t pid : left) {
    Process& process = known_.try_emplace(pid, Process{now}).first->second;
    if (now - process.since < alone) continue;
    if (!process.told) {
      process = {now - alone, true};
      kill(pid, SIGTERM);
    }
    if (now - process.since >= alone + kTold) kill(pid, SIGKILL);
  }
  if (left.empty()) known_.clear();
}

bool end_descendants() {
  const auto deadline = Clock::now() + kAlone + kTold + std::chrono::seconds(2);
  Leftovers leftovers;
  while (true) {
    reap();
    const std::vector<pid_t> left = descendants(getpid());
    if (left.empty()) return true;
    if (Clock::now() >= deadline) return false;
    leftovers.end(left);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace convoy::cli
