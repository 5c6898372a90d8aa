#include "cli/job/role_process.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "cli/launch/child.h"
#include "cli/launch/relay.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

constexpr int kSupervisorSignalBase = 128;  // of a supervisor's exit status
constexpr std::size_t kLastLines = 5;
constexpr std::size_t kLongestLastLine = 300;

std::vector<std::string> supervised(const Role& role, const RoleStart& start) {
  std::vector<std::string> command{start.agent,
                                   "--token",
                                   start.token,
                                   "--role-folder",
                                   start.folder,
                                   "--role-grace-ms",
                                   std::to_string(start.grace.count())};
  for (const std::string& variable : role.env) {
    command.insert(command.end(), {"--role-variable", variable.substr(0, variable.find('='))});
  }
  command.push_back("--");
  command.insert(command.end(), role.argv.begin(), role.argv.end());
  return command;
}

}  // namespace

RoleProcess::RoleProcess(const Role& role, std::string label, const RoleStart& start,
                         std::vector<std::string> variables, LineOutput& out, LineOutput& err)
    : prefix_(role.plain ? "" : "[" + std::move(label) + "] "), draws_(role.draws) {
  variables.insert(variables.end(), start.variables.begin(), start.variables.end());
  variables.insert(variables.end(), role.env.begin(), role.env.end());
  std::vector<std::string> command = supervised(role, start);
  std::string name = "mpirun";
  if (!role.host.empty()) {
    const Mpirun& mpirun = start.mpirun.value();
    mpirun_ = mpirun.flavor;
    name = mpirun.name();
    MpirunJob job{1, {{role.host, 1}}, {}, std::move(command)};
    for (const std::string& variable : variables)
      job.variables.push_back(variable.substr(0, variable.find('=')));
    command = mpirun_arguments(mpirun, job);
    for (std::string& variable : mpirun_environment(mpirun, geteuid() == 0))
      variables.push_back(std::move(variable));
  }
  Child child = start_child(
      command,
      {.variables = variables, .capture_output = true, .input = ChildOptions::Input::nothing});
  pid_ = child.pid;
  const auto add = [&](Descriptor source, LineOutput& target) {
    streams_.push_back({std::move(source),
                        &target,
                        StreamFilter(start.token, name, pid_, /*keep_messages=*/!remote()),
                        {}});
  };
  add(std::move(child.standard_output), out);
  add(std::move(child.standard_error), err);
}

std::array<int, 2> RoleProcess::sources() const {
  std::array<int, 2> found{-1, -1};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!streams_[i].target->full()) found[i] = streams_[i].source.get();
  }
  return found;
}

bool RoleProcess::holds() const { return streams_[0].filter.holds() || streams_[1].filter.holds(); }

void RoleProcess::advance() {
  for (Stream& stream : streams_) {
    if (stream.source.open() && !stream.target->full()) read(stream);
    if (stream.filter.holds() &&
        (!stream.source.open() || Clock::now() - last_bytes_ > Relay::kHold)) {
      print(stream, stream.filter.release());
    }
    for (Report& report : stream.filter.take_reports()) {
      (report.kind == Report::Kind::supervised ? supervised_ : ended_) = std::move(report);
    }
  }
  for (const int signal : held_.take([this](int) { return supervised_.has_value(); }))
    pass_on(signal);
}

void RoleProcess::read(Stream& stream) {
  static constexpr std::size_t kChunk = 65536;
  std::array<char, kChunk> buffer;
  pollfd ready{stream.source.get(), POLLIN, 0};
  if (poll(&ready, 1, 0) <= 0) return;
  const std::size_t most = std::min(buffer.size(), stream.rest.value_or(buffer.size()));
  const ssize_t count = ::read(stream.source.get(), buffer.data(), most);
  if (count < 0 && errno == EINTR) return;
  last_bytes_ = Clock::now();
  if (count > 0)
    print(stream, stream.filter.feed({buffer.data(), static_cast<std::size_t>(count)}));
  if (stream.rest) *stream.rest -= static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  if (count <= 0 || stream.rest == std::size_t{0}) close(stream);
}

void RoleProcess::close(Stream& stream) {
  stream.source.reset();
  print(stream, stream.filter.release());
}

void RoleProcess::print(Stream& stream, std::string_view bytes) {
  if (draws_ && &stream == &streams_[0]) return stream.target->draw(bytes);
  stream.cutter.feed(bytes, [&](std::string_view line) { print_line(stream, line); });
}

void RoleProcess::print_line(const Stream& stream, std::string_view line) {
  stream.target->add(prefix_);
  stream.target->add(line);
  // Whatever comes next begins a line.
  if (line.back() != '\n') stream.target->add("\n");
  if (&stream != &streams_[1]) return;
  last_errors_.emplace_back(line.substr(0, std::min(line.find('\n'), kLongestLastLine)));
  if (last_errors_.size() > kLastLines) last_errors_.pop_front();
}

bool RoleProcess::reaped(pid_t pid, int status) {
  if (pid != pid_ || status_) return false;
  status_ = status;
  return true;
}

void RoleProcess::end_output() {
  for (Stream& stream : streams_) {
    if (!stream.source.open() || stream.rest) continue;
    int bytes = 0;
    ioctl(stream.source.get(), FIONREAD, &bytes);
    stream.rest = static_cast<std::size_t>(bytes);
    if (bytes == 0) close(stream);
  }
}

bool RoleProcess::over() const {
  return status_ && std::none_of(streams_.begin(), streams_.end(),
                                 [](const Stream& stream) { return stream.source.open(); });
}

void RoleProcess::stop() {
  if (status_ || std::exchange(told_, true)) return;
  // Open MPI passes SIGALRM to the supervisor, who takes it for SIGTERM; at SIGTERM it would not
  // give it the time it needs.
  const bool relayed = remote() && *mpirun_ == MpiFlavor::openmpi && supervised_.has_value();
  kill(pid_, relayed ? SIGALRM : SIGTERM);
  if (remote() && !relayed) patience_.tell_mpirun(Clock::now());
}

void RoleProcess::kill_process() {
  if (status_) return;
  const AtOnce below = remote() ? AtOnce{} : at_once(pid_);
  const bool mpirun = remote() || !below.mpiruns.empty();
  if (mpirun) tell_mpirun(below);
  if (patience_.kill(Clock::now(), mpirun)) kill(pid_, SIGKILL);
}

// It has to tell another host, or to remove its files. A second SIGTERM means "leave at once" to
// it.
void RoleProcess::tell_mpirun(const AtOnce& below) {
  const bool told = std::exchange(told_, true);
  const bool first = patience_.tell_mpirun(Clock::now());
  if (remote()) {
    if (first) kill(pid_, SIGTERM);
  } else if (!told) {
    kill(pid_, SIGTERM);
  } else {
    // `convoy run` knows what its mpirun has been told.
    for (pid_t pid : below.above_mpirun) {
      if (name_of(pid) == "convoy") kill(pid, SIGTERM);
    }
  }
}

bool RoleProcess::survives() const { return !status_ && patience_.is_over(Clock::now()); }

void RoleProcess::give_up() {
  given_up_ = true;
  reaped(pid_, SIGKILL);
}

void RoleProcess::pass_on(int signal) {
  if (status_ || told_) return;
  if (!supervised_) return held_.add(signal);  // until somebody is there who can take it
  // MPICH's mpirun would die of SIGUSR2.
  if (!remote() || *mpirun_ == MpiFlavor::openmpi || signal == SIGUSR1) kill(pid_, signal);
}

RoleEnd RoleProcess::finish() {
  for (Stream& stream : streams_) close(stream);
  advance();
  RoleEnd end;
  if (ended_ && ended_->kind == Report::Kind::cannot_start) {
    end = {RoleEnd::Kind::cannot_start, ended_->code, ended_->text};
  } else if (ended_) {
    end = {ended_->signaled ? RoleEnd::Kind::signaled : RoleEnd::Kind::exited, ended_->code, ""};
  } else if (given_up_) {
    end = {RoleEnd::Kind::left, SIGKILL, ""};
  } else if (told_ && supervised_ && !remote() && WIFEXITED(*status_)) {
    // Its report has not come through, for nobody takes its output.
    const int code = WEXITSTATUS(*status_);
    const bool signaled = code > kSupervisorSignalBase;
    end = {signaled ? RoleEnd::Kind::signaled : RoleEnd::Kind::exited,
           signaled ? code - kSupervisorSignalBase : code, ""};
  } else if (told_ && !supervised_) {
    end = {RoleEnd::Kind::signaled, SIGTERM, ""};  // it was told before it had begun
  } else {
    const bool signaled = WIFSIGNALED(*status_);
    const std::string fate = signaled
                                 ? "was killed by " + describe_signal(WTERMSIG(*status_))
                                 : "ended with status " + std::to_string(WEXITSTATUS(*status_));
    end = {RoleEnd::Kind::lost, 1, (remote() ? "mpirun " : "which ") + fate};
    // Nothing else explains it.
    for (Stream& stream : streams_) print(stream, stream.filter.messages());
  }
  for (Stream& stream : streams_)
    stream.cutter.finish([&](std::string_view line) { print_line(stream, line); });
  return end;
}

}  // namespace convoy::cli
