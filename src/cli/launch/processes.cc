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
constexpr std::chrono::milliseconds kKilled{4000};

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

enum class Kind { supervisor, its_mpirun, other };

// An mpirun has the supervisor that it starts in its arguments.
Kind kind_of(pid_t pid) {
  const std::vector<std::string> arguments = arguments_of(pid);
  const auto agent =
      std::find_if(arguments.begin(), arguments.end(),
                   [](const std::string& argument) { return argument.ends_with("/convoy-agent"); });
  if (agent == arguments.end()) return Kind::other;
  return agent == arguments.begin() ? Kind::supervisor : Kind::its_mpirun;
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

std::vector<pid_t> all_but_mpirun(pid_t root) {
  const auto children = children_by_parent();
  struct Process {
    pid_t pid;
    bool spared;
  };
  std::vector<Process> all{{root, false}};
  std::vector<pid_t> found;
  for (std::size_t next = 0; next < all.size(); ++next) {
    const Process parent = all[next];
    const auto [begin, end] = children.equal_range(parent.pid);
    for (auto child = begin; child != end; ++child) {
      const Kind kind = kind_of(child->second);
      const bool spared = kind == Kind::its_mpirun || (parent.spared && kind != Kind::supervisor);
      all.push_back({child->second, spared});
      if (!spared) found.push_back(child->second);
    }
  }
  return found;
}

std::vector<std::string> arguments_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::string describe_process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
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

std::vector<pid_t> Leftovers::end(const std::vector<pid_t>& left) {
  const auto now = Clock::now();
  const bool ranks =
      std::any_of(left.begin(), left.end(), [](pid_t pid) { return kind_of(pid) != Kind::other; });
  const auto alone = ranks ? kAlone : kNothing;
  // Those that are gone are forgotten: their numbers may come again.
  std::erase_if(known_, [&](const auto& known) {
    return std::find(left.begin(), left.end(), known.first) == left.end();
  });
  std::vector<pid_t> lasting;
  for (pid_t pid : left) {
    Process& process = known_.try_emplace(pid, Process{now}).first->second;
    if (now - process.since < alone) continue;
    if (!process.told) {
      process = {now - alone, true};
      kill(pid, SIGTERM);
    }
    if (now - process.since >= alone + kTold) kill(pid, SIGKILL);
    if (now - process.since >= alone + kTold + kKilled) lasting.push_back(pid);
  }
  return lasting;
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
