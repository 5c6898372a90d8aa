#include "cli/agent/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/hold.h"
#include "cli/agent/placement.h"
#include "cli/agent/program_end.h"
#include "cli/agent/pump.h"
#include "cli/launch/again.h"
#include "cli/launch/child.h"
#include "cli/launch/ending.h"
#include "cli/launch/held_signals.h"
#include "cli/launch/processes.h"
#include "cli/launch/rank_variables.h"
#include "cli/launch/report.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDrain{1000};  // for a report to get through
constexpr int kExitCannotStart = 127;
constexpr int kSignalBase = 128;

int number_from(std::initializer_list<const char*> names, int fallback) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return fallback;
}

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options),
        end_(options.role ? options.role->grace : kGrace, options.role.has_value()),
        rank_(number_from({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0)),
        parent_(getppid()),
        under_mpirun_(is_a_rank()) {}

  int run();

 private:
  void take_place();
  bool enter_job_folder();
  bool open_log();
  bool start_program();
  void loop();
  void read_signals();
  void on_signal(const signalfd_siginfo& info);
  void reap();
  bool orphaned();
  int leave();
  void pass_user_signals();
  void end_everything();
  void end_leftovers();
  void hold_place();
  void report(Report::Kind kind, const std::string& text = "");

  const SupervisorOptions& options_;
  ProgramEnd end_;
  const int rank_;
  const pid_t parent_;  // mpirun, or its daemon on this host
  const bool under_mpirun_;
  Descriptor signals_;
  Descriptor log_;
  Descriptor job_folder_;
  std::array<Pump, 2> pumps_;
  pid_t program_ = 0;
  std::optional<int> status_;  // of the program, as wait() gives it
  HeldSignals held_;
  Asked asked_ = Asked::nobody;
  std::uint64_t ended_ns_ = 0;
  bool killed_ = false;
  bool log_failed_ = false;
  bool parent_gone_ = false;
  bool told_to_leave_ = false;  // after the program's end
};

int Supervisor::run() {
  signals_ = signal_descriptor({SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGUSR1, SIGUSR2, SIGCHLD});
  signal(SIGPIPE, SIG_IGN);
  adopt_orphans();
  prctl(PR_SET_PDEATHSIG, SIGHUP);
  if (options_.role) {
    if (under_mpirun_) forget_rank(options_.role->variables);
  } else {
    take_place();
  }
  hold_at("supervise");
  report(Report::Kind::supervised);
  if (!enter_job_folder() || !open_log() || !start_program()) return leave();
  loop();
  return leave();
}

void Supervisor::take_place() {
  PlacementInput input;
  const std::vector<int> cores = usable_cores();
  input.cores = by_topology(cores);
  input.quota = quota_limits(cores.size());
  input.local_rank =
      number_from({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0);
  input.local_ranks = number_from({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 1);
  input.threads = options_.threads;
  input.environment = environment("OMP_NUM_THREADS");
  input.bind = options_.bind;
  const Placement placement = place(input);
  setenv("OMP_NUM_THREADS", placement.threads.c_str(), 1);
  if (!placement.cores.empty()) bind_to_cores(placement.cores);
}

bool Supervisor::enter_job_folder() {
  if (!options_.role) return true;
  const std::string& path = options_.role->folder;
  job_folder_ = Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (job_folder_.open()) {
    flock(job_folder_.get(), LOCK_SH | LOCK_NB);  // a file system without locks can do without
    return true;
  }
  status_ = kExitFailure << 8;
  report(Report::Kind::cannot_start,
         "the folder of the job, " + path + ", can't be opened here: " + std::strerror(errno));
  return false;
}

bool Supervisor::open_log() {
  if (options_.logs.empty()) return true;
  std::error_code ignored;
  std::filesystem::create_directories(options_.logs, ignored);
  const std::string path = options_.logs + "/rank-" + std::to_string(rank_) + ".log";
  log_ = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (log_.open()) return true;
  status_ = kExitUsage << 8;
  report(Report::Kind::cannot_start, "cannot write the log " + path + ": " + std::strerror(errno));
  return false;
}

bool Supervisor::start_program() {
  // Without a log or labels the program writes to mpirun's own streams and nothing stands between.
  const bool relay = log_.open() || options_.label;
  const auto cannot_start = [this](const std::string& why) {
    status_ = kExitCannotStart << 8;
    report(Report::Kind::cannot_start, "cannot start '" + options_.command.front() + "': " + why);
    return false;
  };
  std::array<Pipe, 2> streams;
  Pipe outcome;
  try {
    outcome = make_pipe();
    if (relay) std::generate(streams.begin(), streams.end(), make_pipe);
  } catch (const Failure& error) {
    return cannot_start(error.what());
  }
  std::vector<char*> argv;
  for (const std::string& argument : options_.command)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  const pid_t self = getpid();
  program_ = fork();
  if (program_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(kExitCannotStart);
    for (int i = 0; relay && i < 2; ++i)
      dup2(streams[static_cast<std::size_t>(i)].writing.get(), i + 1);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    if (write(outcome.writing.get(), &error, sizeof error) < 0) _exit(kExitCannotStart);
    _exit(kExitCannotStart);
  }
  int error = program_ < 0 ? errno : 0;
  if (program_ > 0) {
    setpgid(program_, program_);
    outcome.writing.reset();
    if (read(outcome.reading.get(), &error, sizeof error) != sizeof error) error = 0;
  }
  if (error != 0) {
    if (program_ > 0) waitpid(program_, nullptr, 0);
    return cannot_start(std::strerror(error));
  }
  const std::string label =
      options_.label ? std::string("[").append(std::to_string(rank_)).append("] ") : "";
  for (int i = 0; relay && i < 2; ++i) {
    Pipe& stream = streams[static_cast<std::size_t>(i)];
    stream.writing.reset();
    pumps_[static_cast<std::size_t>(i)] = Pump(std::move(stream.reading), i + 1, log_.get(), label);
  }
  return true;
}

void Supervisor::loop() {
  const auto flowing = [&] { return !pumps_[0].done() || !pumps_[1].done(); };
  while (!status_ || flowing()) {
    std::array<pollfd, 5> ready{{{signals_.get(), POLLIN, 0}}};
    for (std::size_t i = 0; i < 2; ++i) {
      ready[1 + 2 * i] = {pumps_[i].readable_fd(), POLLIN, 0};
      ready[2 + 2 * i] = {pumps_[i].writable_fd(), POLLOUT, 0};
    }
    const bool often = (end_.is_asked() && !killed_) || held_.any();
    const auto wait = often ? kLookOften : kParentCheck;
    poll(ready.data(), ready.size(), static_cast<int>(wait.count()));
    for (std::size_t i = 0; i < 2; ++i) {
      if (ready[1 + 2 * i].revents != 0 || ready[2 + 2 * i].revents != 0) pumps_[i].advance();
      if (const int error = pumps_[i].take_log_error(); error != 0 && !log_failed_) {
        log_failed_ = true;
        const std::string text = "convoy run: the log of rank " + std::to_string(rank_) +
                                 " is incomplete: " + std::strerror(error) + "\n";
        write_all(STDERR_FILENO, text);
      }
    }
    read_signals();
    pass_user_signals();
    if (orphaned()) return;
    if (end_.is_over(Clock::now())) {
      if (status_) return;  // the program is gone and nobody takes its output
      kill(-program_, SIGKILL);
      killed_ = true;
    }
  }
}

void Supervisor::read_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) on_signal(info);
  reap();
}

void Supervisor::on_signal(const signalfd_siginfo& info) {
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGCHLD) return;
  if (signal == SIGHUP && orphaned()) return;
  if (signal == SIGUSR1 || signal == SIGUSR2) {
    held_.add(signal);
    return;
  }
  if (status_) {
    told_to_leave_ = true;
    end_.ask(Clock::now());
    return;
  }
  if (!end_.ask(Clock::now())) return;
  asked_ = static_cast<pid_t>(info.ssi_pid) == parent_ ? Asked::mpirun : Asked::another_process;
  kill(-program_, signal == SIGINT ? SIGINT : SIGTERM);
}

void Supervisor::reap() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid != program_ || status_) continue;  // its number may come again
    status_ = status;
    ended_ns_ = now_ns();
    // A rank has ended when its program has: what that left running goes with it, and with that the
    // last writers of its streams, unless they can't be killed.
    end_leftovers();
    for (Pump& pump : pumps_) pump.end_input();
  }
}

void Supervisor::end_leftovers() {
  if (options_.role) {
    end_descendants();
  } else {
    kill_descendants(kKillLeftovers);
  }
}

bool Supervisor::orphaned() {
  parent_gone_ = parent_gone_ || getppid() != parent_;
  return parent_gone_;
}

int Supervisor::leave() {
  if (parent_gone_) {
    end_everything();
    return kExitFailure;
  }
  if (program_ > 0 && ended_ns_ != 0) report(Report::Kind::ended);
  const int status = *status_;
  const int code = WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
  // A rank that asks to be started again is no reason to end the others: they are writing their
  // part. A role is no reason for mpirun to do anything: the job goes by the report.
  if (options_.role) return under_mpirun_ ? 0 : code;
  if (code == 0 || code == kExitRequeue || end_.is_asked()) return 0;
  hold_place();
  return told_to_leave_ ? 0 : code;
}

// They ask for something, and are to end nothing: a program that has just started, and does not
// catch them yet, would die of them.
void Supervisor::pass_user_signals() {
  if (status_) held_.forget();
  for (const int signal : held_.take([this](int s) { return takes_signal(program_, s); }))
    kill(-program_, signal);
}

// Nobody is left to tell.
void Supervisor::end_everything() {
  if (options_.role && !status_ && program_ > 0) {
    const auto until = end_.orphaned(Clock::now());
    kill(-program_, SIGTERM);
    while (!status_ && Clock::now() < until) {
      pollfd ready{signals_.get(), POLLIN, 0};
      poll(&ready, 1, 50);
      read_signals();
    }
  }
  if (!status_ && program_ > 0) kill(-program_, SIGKILL);
  end_leftovers();
}

void Supervisor::hold_place() {
  const auto until = Clock::now() + kHoldPlace;
  while (!told_to_leave_ && !orphaned() && Clock::now() < until) {
    pollfd ready{signals_.get(), POLLIN, 0};
    poll(&ready, 1, 50);
    read_signals();
  }
}

// Waits for the pipe to be empty before it writes: mpirun reads it in pieces and may put another
// rank's output between two of them, but not into one write that it reads at once.
void Supervisor::report(Report::Kind kind, const std::string& text) {
  Report report;
  report.kind = kind;
  report.rank = rank_;
  report.host = host_name();
  report.supervisor = getpid();
  report.pid = program_;
  report.asked = asked_;
  report.time_ns = ended_ns_ != 0 ? ended_ns_ : now_ns();
  report.text = text;
  if (status_) {
    report.signaled = WIFSIGNALED(*status_);
    report.code = report.signaled ? WTERMSIG(*status_) : WEXITSTATUS(*status_);
  }
  const std::string line = format_report(report, options_.token);
  const auto until = Clock::now() + kDrain;
  // A role that ends by itself has time, and a job that takes its output when it can.
  const auto patient = [&] {
    return !orphaned() && (Clock::now() < until || (options_.role && status_ && !end_.is_asked()));
  };
  int unread = 0;
  while (patient() && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0) {
    std::this_thread::sleep_for(milliseconds(Clock::now() < until ? 1 : 20));
    if (options_.role) read_signals();
  }
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, static_cast<int>(kDrain.count())) > 0 &&
      write(STDERR_FILENO, line.data(), line.size()) < 0) {
    return;  // mpirun is gone; nobody is left to tell
  }
}

}  // namespace

int supervise(const SupervisorOptions& options) { return Supervisor(options).run(); }

}  // namespace convoy::cli
