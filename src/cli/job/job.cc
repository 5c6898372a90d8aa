#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>

#include "base/hold.h"
#include "cli/job/folder.h"
#include "cli/job/orphans.h"
#include "cli/job/outcome.h"
#include "cli/job/role.h"
#include "cli/job/role_patience.h"
#include "cli/job/role_process.h"
#include "cli/launch/again.h"
#include "cli/launch/child.h"
#include "cli/launch/launcher.h"
#include "cli/launch/output.h"
#include "cli/launch/processes.h"
#include "cli/launch/rank_variables.h"
#include "cli/launch/relay.h"
#include "cli/launch/report.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLastOrphans{6000};
constexpr milliseconds kLookAround{500}, kLookForOrphans{20};

milliseconds duration(double seconds) {
  constexpr double kYears = 1e8;  // whatever is more would not fit a clock
  return std::chrono::duration_cast<milliseconds>(
      std::chrono::duration<double>(std::min(seconds, kYears)));
}

// A role, run by run.
struct Member {
  enum class State { waiting, running, over };

  const Role* role = nullptr;
  State state = State::waiting;
  Clock::time_point due{};  // waiting: when it starts
  Clock::time_point started_at{};
  int in_a_row = 0;
  std::optional<Clock::time_point> last_until;  // its role's last: the job may end until then
  std::unique_ptr<RoleProcess> process;         // running
  RolePatience patience;
  RoleFate fate;
};

class Job {
 public:
  Job(std::span<const Role> roles, const JobOptions& options);
  JobOutcome run();

 private:
  void start_due();
  void start(Member& member);
  void wait();
  void read_signals();
  void on_signal(int signal);
  void reap();
  void look_after(Member& member);
  void ended(Member& member, const RoleEnd& end);
  void decide();
  void stop_next();
  void kill_all();
  // Whether any process is here that belongs to no role any more; ends such.
  bool end_orphans();
  void say(const std::string& text) { err_.add(options_.speaker + ": " + text + "\n"); }
  // Whether this role's failure, which is final, is the job's.
  bool fails_the_job(const Member& member, const RoleEnd& end) const;
  bool others_are_over(const Member& member, bool in_failure) const;
  void fail(const Member& member);
  JobOutcome finish();

  SignalMask mask_;
  const JobOptions& options_;
  RoleStart start_;
  milliseconds grace_;
  Descriptor signals_;
  TerminalLine line_;
  LineOutput out_{STDOUT_FILENO, line_};
  LineOutput err_{STDERR_FILENO, line_};
  std::unique_ptr<JobFolder> folder_;
  std::vector<Member> members_;
  bool stopping_ = false;
  bool done_ = false;  // all work is, and the rest is being stopped
  Orphans orphans_;
  bool look_for_orphans_ = false;  // there may be some
  JobFates end_;
};

Job::Job(std::span<const Role> roles, const JobOptions& options)
    : options_(options), grace_(duration(options.grace_s)) {
  signals_ = signals_to_a_job();
  signal(SIGPIPE, SIG_IGN);
  start_.agent = supervisor_path();
  const std::string id = random_name();
  start_.token = "convoy-" + random_name();
  start_.grace = grace_;
  for (const Role& role : roles) {
    Member& member = members_.emplace_back();
    member.role = &role;
    member.fate.label = label_of(role, roles);
    member.fate.host = role.host;
    member.fate.until_done = role.until_done;
    member.fate.essential = role.essential;
    member.fate.stops_anyhow = role.stops_anyhow;
    member.fate.started = false;
    if (!role.host.empty() && !start_.mpirun) start_.mpirun = find_mpirun("");
  }
  if (is_a_rank()) forget_rank({});
  folder_ = std::make_unique<JobFolder>(
      start_.agent, options.folder.empty() ? environment("TMPDIR", "/tmp") : options.folder, id,
      [this] {
        read_signals();
        return end_.interrupted_by != 0;
      });
  start_.folder = folder_->path();
  start_.variables = {"CONVOY_JOB_ID=" + options.name + "-" + id,
                      "CONVOY_JOB_FOLDER=" + start_.folder, "CONVOY_COLUMNS=0"};
}

JobOutcome Job::run() {
  while (true) {
    start_due();
    const auto over = std::ranges::count(members_, Member::State::over, &Member::state);
    if (over == std::ssize(members_)) break;
    wait();
    read_signals();
    reap();
    if (look_for_orphans_) look_for_orphans_ = end_orphans();
    for (Member& member : members_) look_after(member);
    decide();
    out_.advance();
    err_.advance();
  }
  return finish();
}

void Job::start_due() {
  for (Member& member : members_) {
    if (member.state != Member::State::waiting || Clock::now() < member.due) continue;
    if (stopping_) return;
    start(member);
    hold_at("job.start");
    read_signals();  // starting many takes a while
  }
}

void Job::start(Member& member) {
  const Role& role = *member.role;
  const auto same =
      std::ranges::count_if(members_, [&](const Member& m) { return m.role->name == role.name; });
  member.fate.started = true;
  member.started_at = Clock::now();
  try {
    member.process = std::make_unique<RoleProcess>(
        role, member.fate.label, start_,
        std::vector<std::string>{"CONVOY_ROLE=" + role.name,
                                 "CONVOY_ROLE_INDEX=" + std::to_string(role.index),
                                 "CONVOY_ROLE_COUNT=" + std::to_string(same),
                                 "CONVOY_ROLE_RESTARTS=" + std::to_string(member.fate.restarts)},
        out_, err_);
    member.state = Member::State::running;
    if (options_.announces)
      say(member.fate.label + (member.fate.restarts > 0 ? " started again" : " started"));
  } catch (const Failure& error) {
    ended(member, {RoleEnd::Kind::lost, kExitFailure, error.what()});
  }
}

void Job::wait() {
  std::vector<pollfd> ready{{signals_.get(), POLLIN, 0},
                            {out_.writable_fd(), POLLOUT, 0},
                            {err_.writable_fd(), POLLOUT, 0}};
  auto until = Clock::now() + (look_for_orphans_ ? kLookForOrphans : kLookAround);
  for (const Member& member : members_) {
    if (member.state == Member::State::waiting) until = std::min(until, member.due);
    if (member.state != Member::State::running) continue;
    for (int source : member.process->sources()) ready.push_back({source, POLLIN, 0});
    if (member.process->holds()) until = std::min(until, Clock::now() + Relay::kHold / 2);
    if (const auto& due = member.patience.due()) until = std::min(until, *due);
  }
  const auto pause = std::chrono::ceil<milliseconds>(until - Clock::now());
  poll(ready.data(), ready.size(), static_cast<int>(std::max(pause, milliseconds(0)).count()));
}

void Job::read_signals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal != SIGCHLD) on_signal(signal);
  }
}

void Job::on_signal(int signal) {
  if (signal == SIGUSR1 && options_.stopped_by_usr1) {
    if (end_.interrupted_by == 0) end_.interrupted_by = signal;
    stopping_ = true;
  } else if (signal == SIGUSR1 || signal == SIGUSR2) {
    for (Member& member : members_) {
      if (member.state == Member::State::running) member.process->pass_on(signal);
    }
  } else if (end_.interrupted_by == 0 || end_.interrupted_by == SIGUSR1) {
    end_.interrupted_by = signal;
    stopping_ = true;
  } else {
    kill_all();  // asked twice: no more patience
  }
}

void Job::reap() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (orphans_.reaped(pid)) look_for_orphans_ = true;
    if (pid == folder_->keeper()) folder_->replace_keeper();
    for (Member& member : members_) {
      // If it could not do so itself, what ran under it is to be ended now; it may hold what the
      // next run needs.
      if (member.state == Member::State::running && member.process->reaped(pid, status))
        look_for_orphans_ = true;
    }
  }
}

void Job::look_after(Member& member) {
  if (member.state != Member::State::running) return;
  RoleProcess& process = *member.process;
  process.advance();
  if (process.ended() && !look_for_orphans_) process.end_output();  // else perhaps its own
  if (process.over()) {
    if (look_for_orphans_) return;
    const RoleEnd end = process.finish();
    member.fate.last_errors = process.last_errors();
    member.process.reset();
    ended(member, end);
  } else if (process.survives()) {
    orphans_.give_up(process.pid());
    process.give_up();
    look_for_orphans_ = true;  // what runs under it
  } else if (member.patience.next(Clock::now())) {
    process.kill_process();
  }
}

void Job::ended(Member& member, const RoleEnd& end) {
  member.fate.end = end;
  const Role& role = *member.role;
  const bool can_start = end.kind != RoleEnd::Kind::cannot_start;
  if (Clock::now() - member.started_at > duration(role.restart.longest_delay_s))
    member.in_a_row = 0;
  const auto pause =
      stopping_ || !can_start || is_fatal(role, end)
          ? std::nullopt
          : pause_before_restart(role.restart, end.failed(), member.fate.restarts, member.in_a_row);
  if (pause) {
    ++member.in_a_row;
    ++member.fate.restarts;
    member.state = Member::State::waiting;
    member.due = Clock::now() + duration(*pause);
    const bool limited =
        role.restart.when == Restart::When::on_failure && role.restart.times != Restart::kNoLimit;
    char delay[32];
    std::snprintf(delay, sizeof delay, "%.3g s", *pause);
    say(member.fate.label + " " + how(end) + "; starting it again in " + delay + " (restart " +
        std::to_string(member.fate.restarts) +
        (limited ? " of " + std::to_string(role.restart.times) : "") + ")");
    return;
  }
  member.state = Member::State::over;
  if (role.last_essential && others_are_over(member, false)) {
    for (Member& one : members_) {
      if (one.role->name == role.name && one.fate.end.failed())
        one.last_until = Clock::now() + duration(role.last_patience_s);
    }
  }
  if (member.fate.told || !end.failed()) return;
  member.fate.behind_the_end = done_;
  if (done_ && role.stops_anyhow) return;
  if (fails_the_job(member, end)) return fail(member);
  say(member.fate.label + " " + how(end) + "; the job goes on without it");
}

void Job::fail(const Member& member) {
  if (end_.fault >= 0 || end_.interrupted_by != 0) return;
  end_.fault = static_cast<int>(&member - members_.data());
  stopping_ = true;
}

bool Job::fails_the_job(const Member& member, const RoleEnd& end) const {
  return member.role->essential || is_fatal(*member.role, end) ||
         (member.role->last_essential && others_are_over(member, true));
}

bool Job::others_are_over(const Member& member, bool in_failure) const {
  return std::ranges::all_of(members_, [&](const Member& other) {
    return &other == &member || other.role->name != member.role->name ||
           (other.state == Member::State::over && (!in_failure || other.fate.end.failed()));
  });
}

void Job::decide() {
  for (const Member& member : members_) {
    if (!stopping_ && member.last_until && Clock::now() >= *member.last_until) fail(member);
  }
  if (!stopping_) {
    const auto is_over = [](const Member& m) {
      return !m.role->until_done || m.state == Member::State::over;
    };
    const bool any =
        std::ranges::any_of(members_, [](const Member& m) { return m.role->until_done; });
    stopping_ = done_ = any && std::ranges::all_of(members_, is_over);
  }
  if (stopping_) stop_next();
}

// Tells the running roles that come first in the order.
void Job::stop_next() {
  std::optional<int> order;
  for (Member& member : members_) {
    if (member.state == Member::State::waiting) {
      member.state = Member::State::over;
      member.fate.told = member.fate.waited = true;
      member.fate.end = {};
    } else if (member.state == Member::State::running) {
      order = std::min(order.value_or(member.role->stop_order), member.role->stop_order);
    }
  }
  for (Member& member : members_) {
    const bool now = member.state == Member::State::running && order == member.role->stop_order;
    if (!now || member.fate.told) continue;
    member.fate.told = true;
    member.patience.told(Clock::now(), grace_);
    member.process->stop();
  }
}

void Job::kill_all() {
  for (Member& member : members_) {
    if (member.state != Member::State::running) continue;
    member.fate.told = true;
    member.patience.told_again(Clock::now());
    member.process->kill_process();
  }
  // An mpirun has been told.
  for (pid_t pid : at_once(getpid()).to_kill) {
    if (folder_ == nullptr || pid != folder_->keeper()) kill(pid, SIGKILL);
  }
}

bool Job::end_orphans() {
  std::set<pid_t> known{folder_->keeper()};
  for (const Member& member : members_) {
    if (member.state == Member::State::running) known.insert(member.process->pid());
  }
  const bool left = orphans_.end(known);
  for (pid_t pid : orphans_.take_given_up())
    say(describe_process(pid) + " can't be killed; the job goes on without waiting for its end");
  return left;
}

JobOutcome Job::finish() {
  const auto until = Clock::now() + kLastOrphans;
  while (end_orphans() && Clock::now() < until) {
    reap();
    poll(nullptr, 0, static_cast<int>(kLookForOrphans.count()));
  }
  std::set<pid_t> hopeless = orphans_.given_up();
  if (!folder_->remove()) {
    say("the folder " + folder_->path() + " is left: the process that was to remove it hangs");
    hopeless.insert(folder_->keeper());
  }
  for (pid_t pid : kill_descendants(kKillPatience, hopeless))
    end_.left.push_back(describe_process(pid));
  print_the_rest(out_, err_, signals_.get());
  for (Member& member : members_) end_.roles.push_back(std::move(member.fate));
  return judge_job(end_);
}

}  // namespace

JobOutcome run_job(std::span<const Role> roles, const JobOptions& options) {
  check_roles(roles);
  adopt_orphans();
  return Job(roles, options).run();
}

}  // namespace convoy::cli
