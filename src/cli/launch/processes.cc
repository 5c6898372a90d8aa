#include "cli/launch/processes.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace convoy::cli {
namespace {

constexpr std::chrono::milliseconds kPause{5};

struct Status {
  Process process;
  pid_t parent = 0;
};

// Nothing of one that is gone, or a zombie. One whose first thread alone is a zombie still has its
// files and locks: a killed process lets go of them with the last of its threads.
std::optional<Status> status_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  // The name in parentheses may itself hold spaces and parentheses: the last one ends it.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  char state = 'Z';
  Status status{{pid, 0}, 0};
  fields >> state >> status.parent;
  // Fields 5 to 21 of proc(5), of which the 20th counts threads; its start is the 22nd.
  constexpr int kBetween = 17, kThreads = 15;
  long threads = 0;
  for (int i = 0; i < kBetween; ++i) {
    std::string field;
    fields >> field;
    if (i == kThreads) threads = std::atol(field.c_str());
  }
  if (!(fields >> status.process.started) || (state == 'Z' && threads <= 1)) return std::nullopt;
  return status;
}

enum class Kind { supervisor, mpirun, other };

// By name: a process that hangs may keep its arguments, and whoever asks for them, to itself.
Kind kind_of(pid_t pid) {
  const std::string name = name_of(pid);
  if (name == "convoy-agent") return Kind::supervisor;
  for (const char* mpirun : {"mpirun", "mpiexec", "orterun", "prterun"})
    if (name.starts_with(mpirun)) return Kind::mpirun;
  return Kind::other;
}

bool leads_to_mpirun(const ProcessTree& tree, pid_t parent) {
  const std::vector<Process> children = tree.children(parent);
  return std::any_of(children.begin(), children.end(), [&](const Process& child) {
    return kind_of(child.pid) == Kind::mpirun || leads_to_mpirun(tree, child.pid);
  });
}

struct Place {
  pid_t parent;
  bool spared = false;
  bool below_mpirun = false;
};

void sort_out(const ProcessTree& tree, const Place& place, pid_t mpirun, AtOnce& all) {
  for (const Process& child : tree.children(place.parent)) {
    const Kind kind = child.pid == mpirun ? Kind::mpirun : kind_of(child.pid);
    const bool spared = kind == Kind::mpirun || (place.spared && kind != Kind::supervisor);
    if (kind == Kind::mpirun && !place.below_mpirun) all.mpiruns.push_back(child.pid);
    if (!spared) {
      const bool above = !place.below_mpirun && leads_to_mpirun(tree, child.pid);
      (above ? all.above_mpirun : all.to_kill).push_back(child.pid);
    }
    sort_out(tree, {child.pid, spared, place.below_mpirun || spared}, mpirun, all);
  }
}

void reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

ProcessTree::ProcessTree() {
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = static_cast<pid_t>(std::atoi(entry->d_name));
    if (pid <= 0) continue;
    if (const auto status = status_of(pid)) by_parent_.emplace(status->parent, status->process);
  }
  closedir(proc);
}

std::vector<Process> ProcessTree::children(pid_t parent) const {
  const auto [begin, end] = by_parent_.equal_range(parent);
  std::vector<Process> found;
  for (auto child = begin; child != end; ++child) found.push_back(child->second);
  return found;
}

std::optional<Process> find_process(pid_t pid) {
  const auto status = status_of(pid);
  return status ? std::optional(status->process) : std::nullopt;
}

std::uint64_t ticks_now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto rate = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * rate +
         static_cast<std::uint64_t>(now.tv_nsec) * rate / 1000000000u;
}

std::vector<pid_t> descendants(pid_t root) {
  const ProcessTree tree;
  std::vector<pid_t> found{root};
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (const Process& child : tree.children(found[next])) found.push_back(child.pid);
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  for (const Process& child : ProcessTree().children(parent)) found.push_back(child.pid);
  return found;
}

AtOnce at_once(pid_t root, pid_t mpirun) {
  AtOnce all;
  sort_out(ProcessTree(), {root}, mpirun, all);
  return all;
}

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::vector<std::string> arguments_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

bool takes_signal(pid_t pid, int signal) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    const bool mask =
        line.starts_with("SigBlk:") || line.starts_with("SigIgn:") || line.starts_with("SigCgt:");
    if (!mask) continue;
    const auto signals = std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 16);
    if ((signals >> (signal - 1) & 1u) != 0) return true;
  }
  return false;
}

std::string describe_process(pid_t pid) {
  const std::string name = name_of(pid);
  return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

std::vector<pid_t> kill_descendants(std::chrono::milliseconds limit,
                                    const std::set<pid_t>& hopeless) {
  const auto deadline = Clock::now() + limit;
  std::map<Process, Clock::time_point> killed;
  while (true) {
    const ProcessTree tree;
    bool waiting = false;
    std::vector<pid_t> left;
    std::vector<std::pair<Process, bool>> all;  // and whether it is hopeless, or under such
    const auto add_children = [&](pid_t parent, bool under) {
      for (const Process& child : tree.children(parent))
        all.emplace_back(child, under || hopeless.count(child.pid) > 0);
    };
    add_children(getpid(), false);
    for (std::size_t next = 0; next < all.size(); ++next) {
      const auto [process, is_hopeless] = all[next];
      add_children(process.pid, is_hopeless);
      kill(process.pid, SIGKILL);
      waiting = waiting || !is_hopeless;
      const auto since = killed.try_emplace(process, Clock::now()).first->second;
      if (hopeless.count(process.pid) > 0 || Clock::now() - since >= limit / 2)
        left.push_back(process.pid);
    }
    reap();
    if (!waiting || Clock::now() >= deadline) return left;
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
  const bool of_mpi_job =
      std::any_of(left.begin(), left.end(), [](pid_t pid) { return kind_of(pid) != Kind::other; });
  std::vector<Process> processes;
  for (pid_t pid : left) {
    if (const auto process = find_process(pid)) processes.push_back(*process);
  }
  const Due due = next(Clock::now(), processes, of_mpi_job);
  for (pid_t pid : due.terminated) kill(pid, SIGTERM);
  for (pid_t pid : due.killed) kill(pid, SIGKILL);
  return due.lasting;
}

Leftovers::Due Leftovers::next(Clock::time_point now, const std::vector<Process>& left,
                               bool of_mpi_job) {
  const std::chrono::milliseconds alone = of_mpi_job ? kAlone : std::chrono::milliseconds(0);
  std::map<Process, State> before = std::exchange(known_, {});
  Due due;
  for (const Process& process : left) {
    const auto found = before.find(process);
    State& state =
        known_.emplace(process, found == before.end() ? State{now} : found->second).first->second;
    if (!state.told_at) {
      if (now - state.since < alone) continue;
      state.told_at = now;
      due.terminated.push_back(process.pid);
    }
    if (now - *state.told_at >= kTold) due.killed.push_back(process.pid);
    if (now - *state.told_at >= kTold + kKillPatience) due.lasting.push_back(process.pid);
  }
  return due;
}

bool end_descendants() {
  const auto deadline =
      Clock::now() + Leftovers::kAlone + Leftovers::kTold + std::chrono::seconds(2);
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
