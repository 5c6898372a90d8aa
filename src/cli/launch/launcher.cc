#include "cli/launch/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "cli/launch/build_config.h"
#include "cli/launch/child.h"
#include "cli/launch/processes.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

using std::chrono::milliseconds;

// After the first fault. Ranks that fail for the same reason at nearly the same time get to say so
// before the rest is ended; from then on the supervisors give their programs 3 s.
constexpr milliseconds kLastWords{500};
constexpr milliseconds kTerminateMpirun{4500};
constexpr milliseconds kKillMpirun{7000};
// From the end of a supervisor that has not reported to the conclusion that it never will.
constexpr milliseconds kReportDelay{1000};
// What is left of the 10 s once mpirun is gone.
constexpr milliseconds kAwaitOrphans{1000};
constexpr milliseconds kKillOrphans{1500};
// Bytes that look like the beginning of a message of mpirun wait this long for the rest.
constexpr milliseconds kHold{100};

std::string make_token() {
  std::random_device random;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "convoy-%08x%08x", random(), random());
  return text.data();
}

std::vector<std::string> supervised(const LaunchOptions& options, const std::string& token) {
  std::vector<std::string> command{supervisor_path(), "--token", token};
  if (!options.threads.empty()) command.insert(command.end(), {"--threads", options.threads});
  if (!options.bind) command.insert(command.end(), {"--bind", "none"});
  if (!options.logs.empty()) command.insert(command.end(), {"--logs", options.logs});
  if (options.label) command.push_back("--label");
  command.push_back("--");
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

// One stream of mpirun on its way to the same stream of this process.
struct Relay {
  Descriptor source;
  int target;
  StreamFilter filter;
  Clock::time_point last_bytes{};
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), token_(make_token()), host_(host_name()) {}

  Verdict run();

 private:
  void start();
  void pump(Relay& relay);
  void forward(const Relay& relay, const std::string& bytes);
  void read_signals();
  void reap();
  void watch();
  void check_supervisors();
  void end_orphans() const;
  // Every rank that is known to run on this machine, if that is all of them.
  std::optional<std::vector<pid_t>> local_supervisors() const;
  void pass_on(int signal);
  void end_ranks();
  void finish();
  int poll_timeout() const;

  const LaunchOptions& options_;
  const std::string token_;
  const std::string host_;
  Descriptor signals_;
  std::vector<Relay> relays_;
  pid_t mpirun_ = 0;
  bool mpirun_ended_ = false;
  JobEnd end_;
  std::optional<Clock::time_point> fault_at_;
  std::optional<Clock::time_point> grace_until_;
  std::set<int> supervisors_;  // ranks whose supervisor was seen alive on this machine
  Clock::time_point lost_at_{};
  bool mid_line_ = false;  // on standard error
  bool asked_ranks_ = false;
  bool asked_mpirun_ = false;
};

Verdict Launcher::run() {
  end_.ranks = options_.ranks;
  adopt_orphans();
  start();
  while (true) {
    std::vector<pollfd> ready{{signals_.get(), POLLIN, 0}};
    for (const Relay& relay : relays_) ready.push_back({relay.source.get(), POLLIN, 0});
    poll(ready.data(), ready.size(), poll_timeout());
    read_signals();
    reap();
    for (Relay& relay : relays_) pump(relay);
    if (mpirun_ended_) break;
    watch();
  }
  finish();
  const Verdict verdict = judge(end_);
  if (!verdict.line.empty() && mid_line_) write_all(STDERR_FILENO, "\n");
  if (!verdict.explained) {
    for (const Relay& relay : relays_) write_all(STDERR_FILENO, relay.filter.messages());
  }
  return verdict;
}

void Launcher::start() {
  const MpirunJob job{options_.ranks, options_.hosts, options_.mpirun_arguments,
                      supervised(options_, token_)};
  const std::vector<std::string> arguments = mpirun_arguments(options_.mpirun, job);
  const std::vector<std::string> variables = mpirun_environment(options_.mpirun, geteuid() == 0);
  if (options_.verbose) {
    std::string line = "convoy run:";
    for (const std::string& text : variables) line += " " + text;
    for (const std::string& text : arguments) line += " " + text;
    write_all(STDERR_FILENO, line + "\n");
  }
  signals_ = signal_descriptor({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD});
  signal(SIGPIPE, SIG_IGN);
  // MPICH announces a bad end on standard output; Open MPI's needs no filter.
  const bool capture_output = options_.mpirun.flavor == MpiFlavor::mpich;
  Child child = start_child(arguments, variables, capture_output);
  mpirun_ = child.pid;
  const auto relay = [&](Descriptor source, int target) {
    if (!source.open()) return;
    relays_.push_back({std::move(source), target,
                       StreamFilter(token_, options_.mpirun.name(), mpirun_, options_.verbose)});
  };
  relay(std::move(child.standard_error), STDERR_FILENO);
  relay(std::move(child.standard_output), STDOUT_FILENO);
}

void Launcher::forward(const Relay& relay, const std::string& bytes) {
  if (bytes.empty()) return;
  if (relay.target == STDERR_FILENO) mid_line_ = bytes.back() != '\n';
  // If nobody reads any more, the job goes on: its results are elsewhere.
  write_all(relay.target, bytes);
}

void Launcher::pump(Relay& relay) {
  if (relay.source.open()) {
    pollfd ready{relay.source.get(), POLLIN, 0};
    static constexpr std::size_t kChunk = 65536;
    std::array<char, kChunk> buffer;
    while (poll(&ready, 1, 0) > 0) {
      const ssize_t count = read(relay.source.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        relay.source.reset();
        break;
      }
      forward(relay, relay.filter.feed({buffer.data(), static_cast<std::size_t>(count)}));
      relay.last_bytes = Clock::now();
      if (count < static_cast<ssize_t>(buffer.size())) break;
    }
  }
  if (relay.filter.holds() && (!relay.source.open() || Clock::now() - relay.last_bytes > kHold)) {
    forward(relay, relay.filter.release());
  }
  for (Report& report : relay.filter.take_reports()) end_.reports.push_back(std::move(report));
  if (!end_.notice) end_.notice = relay.filter.notice();
  if (!end_.last_words) end_.last_words = relay.filter.last_words();
}

void Launcher::read_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      pass_on(signal);
      continue;
    }
    if (end_.interrupted_by != 0) {
      // Asked twice: no more patience.
      for (pid_t pid : descendants(getpid())) kill(pid, SIGKILL);
      continue;
    }
    if (fault_at_) continue;
    end_.interrupted_by = signal;
    if (options_.grace_s > 0) {
      grace_until_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(options_.grace_s));
      pass_on(SIGUSR1);
    } else {
      fault_at_ = Clock::now() - kLastWords;
    }
  }
}

void Launcher::reap() {
  int status = 0;
  // Orphans arrive here as well, see adopt_orphans().
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid != mpirun_) continue;
    mpirun_ended_ = true;
    end_.mpirun_signaled = WIFSIGNALED(status);
    end_.mpirun_code = end_.mpirun_signaled ? WTERMSIG(status) : WEXITSTATUS(status);
  }
}

void Launcher::watch() {
  if (!fault_at_) {
    check_supervisors();
    if (first_fault(end_) != nullptr || end_.notice) fault_at_ = Clock::now();
    if (grace_until_ && Clock::now() >= *grace_until_ && !fault_at_) {
      fault_at_ = Clock::now() - kLastWords;
    }
    return;
  }
  const auto elapsed = Clock::now() - *fault_at_;
  if (elapsed >= kLastWords && !asked_ranks_) {
    asked_ranks_ = true;
    end_ranks();
  }
  if (asked_ranks_) end_orphans();
  if (elapsed >= kTerminateMpirun && !asked_mpirun_) {
    asked_mpirun_ = true;
    kill(mpirun_, SIGTERM);
  }
  if (elapsed >= kKillMpirun) kill(mpirun_, SIGKILL);
}

// What a dead supervisor would have ended has become a child of this process. It may hold mpirun's
// pipes, and mpirun waits for their end.
void Launcher::end_orphans() const {
  const std::vector<pid_t> supervised = descendants(mpirun_);
  for (pid_t pid : descendants(getpid())) {
    const bool orphan =
        pid != mpirun_ && std::find(supervised.begin(), supervised.end(), pid) == supervised.end();
    if (orphan) kill(pid, SIGKILL);
  }
}

// mpirun may miss the death of a supervisor as long as something holds that one's pipes, and
// MPICH's does not say whose death came first.
void Launcher::check_supervisors() {
  if (arguments_of(mpirun_).empty()) return;  // it has taken them with it
  std::map<int, const Report*> missing;
  for (const Report& report : end_.reports) {
    if (report.kind != Report::Kind::supervised) {
      missing.erase(report.rank);
      continue;
    }
    const std::vector<std::string> arguments = arguments_of(report.supervisor);
    // The number may be of another machine with this name, or used again.
    const bool alive = std::find(arguments.begin(), arguments.end(), token_) != arguments.end();
    if (alive) supervisors_.insert(report.rank);
    if (!alive && supervisors_.count(report.rank) > 0) missing[report.rank] = &report;
  }
  if (missing.empty()) {
    end_.lost.reset();
    return;
  }
  // Its last report, or mpirun's word, may still be on the way.
  if (!end_.lost) {
    const Report& first = *missing.begin()->second;
    end_.lost = Notice{.rank = first.rank, .host = first.host};
    lost_at_ = Clock::now();
  }
  if (Clock::now() - lost_at_ >= kReportDelay) fault_at_ = Clock::now();
}

std::optional<std::vector<pid_t>> Launcher::local_supervisors() const {
  std::vector<pid_t> pids;
  for (const Report& report : end_.reports) {
    if (report.kind != Report::Kind::supervised) continue;
    if (report.host != host_) return std::nullopt;
    // The number may be of another machine with this name, or used again.
    const std::vector<std::string> arguments = arguments_of(report.supervisor);
    const bool gone = arguments.empty();
    if (!gone && std::find(arguments.begin(), arguments.end(), token_) == arguments.end())
      return std::nullopt;
    pids.push_back(gone ? 0 : report.supervisor);
  }
  if (static_cast<int>(pids.size()) < options_.ranks) return std::nullopt;
  pids.erase(std::remove(pids.begin(), pids.end(), 0), pids.end());
  return pids;
}

void Launcher::pass_on(int signal) {
  if (const auto supervisors = local_supervisors()) {
    for (pid_t pid : *supervisors) kill(pid, signal);
  } else if (options_.mpirun.flavor == MpiFlavor::openmpi || signal == SIGUSR1) {
    kill(mpirun_, signal);  // MPICH's mpirun would die of SIGUSR2
  }
}

void Launcher::end_ranks() {
  if (const auto supervisors = local_supervisors()) {
    for (pid_t pid : *supervisors) kill(pid, SIGTERM);
    return;
  }
  const bool all_started =
      std::count_if(end_.reports.begin(), end_.reports.end(), [](const Report& report) {
        return report.kind == Report::Kind::supervised;
      }) >= options_.ranks;
  // Open MPI passes SIGALRM to the supervisors, who take it for "end your rank"; at SIGTERM it
  // would not give them the time they need.
  const bool relayed = options_.mpirun.flavor == MpiFlavor::openmpi && all_started;
  kill(mpirun_, relayed ? SIGALRM : SIGTERM);
}

void Launcher::finish() {
  const bool orderly = !fault_at_ && !end_.mpirun_signaled && end_.mpirun_code == 0;
  if (!orderly && !await_descendants(kAwaitOrphans)) kill_descendants(kKillOrphans);
  // What is in the pipes now is all there will be, unless a process outside this tree holds them.
  const auto deadline = Clock::now() + milliseconds(500);
  for (Relay& relay : relays_) {
    while (relay.source.open() && Clock::now() < deadline) {
      pollfd ready{relay.source.get(), POLLIN, 0};
      if (poll(&ready, 1, 50) == 0 && !orderly) break;
      pump(relay);
    }
    relay.source.reset();
    pump(relay);
  }
}

int Launcher::poll_timeout() const {
  const bool holds = std::any_of(relays_.begin(), relays_.end(),
                                 [](const Relay& relay) { return relay.filter.holds(); });
  if (holds) return static_cast<int>(kHold.count() / 2);
  return fault_at_ || end_.lost ? 100 : 500;
}

}  // namespace

std::string supervisor_path() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string self(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  const std::string found = self.substr(0, self.rfind('/') + 1) + kSupervisorFromBin;
  if (access(found.c_str(), X_OK) != 0) {
    throw Failure(found + " is missing; it is installed together with " + self);
  }
  return found;
}

Verdict launch(const LaunchOptions& options) { return Launcher(options).run(); }

}  // namespace convoy::cli
