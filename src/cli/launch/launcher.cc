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
#include <map>
#include <optional>
#include <utility>

#include "base/hold.h"
#include "cli/launch/build_config.h"
#include "cli/launch/child.h"
#include "cli/launch/ending.h"
#include "cli/launch/held_signals.h"
#include "cli/launch/output.h"
#include "cli/launch/processes.h"
#include "cli/launch/relay.h"
#include "cli/launch/supervisors.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

using std::chrono::milliseconds;

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

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), token_("convoy-" + random_name()), supervisors_(token_) {}

  Verdict run();

 private:
  void start();
  void learn_from(Relay& relay);
  void read_signals();
  void reap();
  void watch();
  bool job_has_failed();
  bool supervisor_is_lost();
  bool has_leftovers() const;
  bool all_have_ended() const;
  void take(Ending::Step step);
  // Whether there were any.
  bool end_orphans() const;
  bool all_have_started() const;
  void pass_on(int signal);
  void end_ranks();
  void end_at_once();
  void terminate_mpirun();
  void finish();
  int poll_timeout() const;

  // Streams of this process are written to as they take it: signals have to be answered, and the
  // deaths of ranks, while a terminal is slow or nobody reads a pipe.
  void write_output() {
    out_.advance();
    err_.advance();
  }
  void say(const std::string& text) { err_.add(options_.speaker + ": " + text + "\n"); }
  void print_end(const Verdict& verdict);

  SignalMask mask_;
  const LaunchOptions& options_;
  const std::string token_;
  Descriptor signals_;
  TerminalLine line_;
  LineOutput out_{STDOUT_FILENO, line_};
  LineOutput err_{STDERR_FILENO, line_};
  std::vector<Relay> relays_;
  pid_t mpirun_ = 0;
  bool mpirun_told_ = false;  // by SIGTERM
  bool mpirun_ended_ = false;
  JobEnd job_end_;
  HeldSignals held_;
  Ending ending_{kKillPatience};
  MissingReport missing_;
  Supervisors supervisors_;
};

Verdict Launcher::run() {
  job_end_.ranks = options_.ranks;
  job_end_.partitions = options_.partitions;
  adopt_orphans();
  start();
  while (true) {
    // What a supervisor that is gone has said of its rank may lie behind output that nobody reads;
    // and when all ranks have ended, no more comes, and mpirun waits for it to be taken.
    const bool whole = missing_.waits() || all_have_ended();
    std::vector<pollfd> ready{{signals_.get(), POLLIN, 0},
                              {out_.writable_fd(), POLLOUT, 0},
                              {err_.writable_fd(), POLLOUT, 0}};
    for (const Relay& relay : relays_) ready.push_back({relay.source(whole), POLLIN, 0});
    poll(ready.data(), ready.size(), poll_timeout());
    read_signals();
    reap();
    for (Relay& relay : relays_) {
      relay.advance(whole);
      learn_from(relay);
    }
    // Before all supervisors stand mpirun would die of it, or some ranks never hear of it.
    for (const int signal : held_.take([this](int) { return all_have_started(); })) pass_on(signal);
    write_output();
    if (mpirun_ended_ || ending_.phase() == Ending::Phase::given_up) break;
    watch();
  }
  finish();
  Verdict verdict = judge(job_end_);
  print_end(verdict);
  return verdict;
}

void Launcher::print_end(const Verdict& verdict) {
  const bool says = !options_.speaker.empty() && !verdict.line.empty();
  for (const Relay& relay : relays_) {
    if (says && &relay.target() == &err_ && relay.mid_line()) err_.add("\n");
  }
  for (Relay& relay : relays_) {
    if (!verdict.explained) err_.add(relay.filter().messages());
  }
  if (says) say(verdict.line);
  print_the_rest(out_, err_, signals_.get());
  // What comes from here on is too late for the job, and no reason to die of it.
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
  }
}

void Launcher::start() {
  const MpirunJob job{options_.ranks, options_.hosts, options_.mpirun_arguments,
                      supervised(options_, token_)};
  const std::vector<std::string> arguments = mpirun_arguments(options_.mpirun, job);
  // An mpirun that is killed, or told to end while it starts, leaves its files; the job's folder is
  // removed whatever happens.
  const std::vector<std::string> variables =
      mpirun_environment(options_.mpirun, geteuid() == 0,
                         options_.hosts.empty() ? environment("CONVOY_JOB_FOLDER", "") : "");
  if (options_.verbose) {
    std::string line;
    for (const std::string& text : variables) line += (line.empty() ? "" : " ") + text;
    for (const std::string& text : arguments) line += (line.empty() ? "" : " ") + text;
    say(line);
    write_output();  // it may be what says why mpirun does not start
  }
  signals_ = signals_to_a_job();
  signal(SIGPIPE, SIG_IGN);
  // MPICH announces a bad end on standard output; Open MPI's needs no filter.
  const bool capture_output = options_.mpirun.flavor == MpiFlavor::mpich;
  Child child = start_child(arguments, {.variables = variables, .capture_output = capture_output});
  mpirun_ = child.pid;
  const auto relay = [&](Descriptor source, LineOutput& target) {
    if (!source.open()) return;
    relays_.emplace_back(std::move(source), target,
                         StreamFilter(token_, options_.mpirun.name(), mpirun_, options_.verbose));
  };
  relay(std::move(child.standard_error), err_);
  relay(std::move(child.standard_output), out_);
  hold_at("launch");
}

void Launcher::learn_from(Relay& relay) {
  for (Report& report : relay.filter().take_reports())
    job_end_.reports.push_back(std::move(report));
  if (!job_end_.notice) job_end_.notice = relay.filter().notice();
  if (!job_end_.last_words) job_end_.last_words = relay.filter().last_words();
}

void Launcher::read_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      held_.add(signal);
      continue;
    }
    if (job_end_.interrupted_by != 0) {
      end_at_once();
      continue;
    }
    if (!ending_.running()) continue;
    job_end_.interrupted_by = signal;
    const std::chrono::duration<double> grace(std::max(options_.grace_s, 0.0));
    ending_.told(Clock::now(), std::chrono::duration_cast<Clock::duration>(grace));
    if (grace.count() > 0) held_.add(SIGUSR1);
  }
}

// Asked twice: no more patience with the ranks. But a killed mpirun would leave its files here, and
// the ranks of other hosts to themselves.
void Launcher::end_at_once() {
  take(ending_.told_again(Clock::now()));
  for (pid_t pid : at_once(getpid(), mpirun_).to_kill) kill(pid, SIGKILL);
}

void Launcher::terminate_mpirun() {
  // A second time would make it leave at once.
  if (!std::exchange(mpirun_told_, true)) kill(mpirun_, SIGTERM);
}

void Launcher::reap() {
  int status = 0;
  // Orphans arrive here as well, see adopt_orphans().
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid != mpirun_ || mpirun_ended_) continue;  // its number may come again
    mpirun_ended_ = true;
    job_end_.mpirun_signaled = WIFSIGNALED(status);
    job_end_.mpirun_code = job_end_.mpirun_signaled ? WTERMSIG(status) : WEXITSTATUS(status);
  }
}

void Launcher::watch() {
  const bool running = ending_.running();
  Ending::Seen seen;
  if (running) {
    seen.failed = job_has_failed();
    seen.leftovers = !seen.failed && has_leftovers();
  }
  take(ending_.next(Clock::now(), seen));
  if (!running && ending_.phase() != Ending::Phase::last_words) end_orphans();
}

void Launcher::take(Ending::Step step) {
  switch (step) {
    case Ending::Step::none:
      break;
    case Ending::Step::end_ranks:
      end_ranks();
      break;
    case Ending::Step::ask_mpirun:
      terminate_mpirun();
      break;
    case Ending::Step::kill_mpirun:
      kill(mpirun_, SIGKILL);
      break;
  }
}

// mpirun waits for the end of the ranks' output. What a rank has left behind may hold that, and
// outlive its supervisor and SIGKILL.
bool Launcher::has_leftovers() const { return all_have_ended() && end_orphans(); }

bool Launcher::all_have_ended() const {
  return std::count_if(job_end_.reports.begin(), job_end_.reports.end(), [](const Report& report) {
           return report.kind == Report::Kind::ended;
         }) >= options_.ranks;
}

bool Launcher::job_has_failed() {
  const bool lost = supervisor_is_lost();
  return lost || first_fault(job_end_) != nullptr || job_end_.notice;
}

// What a dead supervisor would have ended has become a child of this process. It may hold mpirun's
// pipes, and mpirun waits for their end.
bool Launcher::end_orphans() const {
  // Also those that mpirun starts while this looks.
  std::vector<pid_t> supervised = descendants(mpirun_);
  const std::vector<pid_t> all = descendants(getpid());
  const std::vector<pid_t> later = descendants(mpirun_);
  supervised.insert(supervised.end(), later.begin(), later.end());
  bool any = false;
  for (pid_t pid : all) {
    const bool orphan =
        pid != mpirun_ && std::find(supervised.begin(), supervised.end(), pid) == supervised.end();
    if (orphan) kill(pid, SIGKILL);
    any = any || orphan;
  }
  return any;
}

// mpirun may miss the death of a supervisor as long as something holds that one's pipes, and
// MPICH's does not say whose death came first.
bool Launcher::supervisor_is_lost() {
  if (!find_process(mpirun_)) return false;  // mpirun's end is the end of all of them
  const std::map<int, const Report*> missing = supervisors_.missing(job_end_.reports);
  if (missing.empty()) {
    job_end_.lost.reset();
  } else if (!job_end_.lost) {
    // Its last report, or mpirun's word, may still be on the way.
    const Report& first = *missing.begin()->second;
    job_end_.lost = Notice{.rank = first.rank, .host = first.host};
  }
  return missing_.next(Clock::now(), !missing.empty());
}

bool Launcher::all_have_started() const {
  return std::count_if(job_end_.reports.begin(), job_end_.reports.end(), [](const Report& report) {
           return report.kind == Report::Kind::supervised;
         }) >= options_.ranks;
}

void Launcher::pass_on(int signal) {
  if (const auto supervisors = supervisors_.all_here(job_end_.reports, options_.ranks)) {
    for (pid_t pid : *supervisors) kill(pid, signal);
  } else if (options_.mpirun.flavor == MpiFlavor::openmpi || signal == SIGUSR1) {
    kill(mpirun_, signal);  // MPICH's mpirun would die of SIGUSR2
  }
}

void Launcher::end_ranks() {
  if (const auto supervisors = supervisors_.all_here(job_end_.reports, options_.ranks)) {
    for (pid_t pid : *supervisors) kill(pid, SIGTERM);
    return;
  }
  // Open MPI passes SIGALRM to the supervisors, who take it for "end your rank"; at SIGTERM it
  // would not give them the time they need.
  const bool relayed = options_.mpirun.flavor == MpiFlavor::openmpi && all_have_started();
  if (relayed) {
    kill(mpirun_, SIGALRM);
  } else {
    terminate_mpirun();
  }
}

void Launcher::finish() {
  const bool orderly = ending_.running() && !job_end_.mpirun_signaled && job_end_.mpirun_code == 0;
  if (!await_descendants(kAwaitOrphans)) {
    // Or they have had the time already.
    const bool tried = ending_.ranks_ended() || ending_.phase() == Ending::Phase::given_up;
    for (pid_t pid : kill_descendants(tried ? kKillOrphans : kKillPatience))
      job_end_.left.push_back(describe_process(pid));
  }
  // What is in the pipes now is all there will be, unless a process outside this tree holds them.
  const auto deadline = Clock::now() + milliseconds(500);
  for (Relay& relay : relays_) {
    while (relay.open() && Clock::now() < deadline) {
      if (!relay.advance_whole(milliseconds(50)) && !orderly) break;
      write_output();
    }
    relay.close();
    learn_from(relay);
  }
  if (ending_.ranks_ended()) {  // and they say how
    job_end_.notice.reset();
    job_end_.mpirun_signaled = false;
    job_end_.mpirun_code = 0;
  }
}

int Launcher::poll_timeout() const {
  const bool holds =
      std::any_of(relays_.begin(), relays_.end(), [](const Relay& relay) { return relay.holds(); });
  if (holds) return static_cast<int>(Relay::kHold.count() / 2);
  const bool often = !ending_.running() || missing_.waits();
  return static_cast<int>((often ? kLookOften : kLook).count());
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
