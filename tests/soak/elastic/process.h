// Processes of the soak.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/base/descriptor.h"
#include "convoy/base/error.h"
#include "tests/base/patience.h"

namespace convoy::soak {

// A copy of this program in which `body` runs, and what it says.
class Process {
 public:
  using Say = std::function<void(const std::string&)>;
  explicit Process(const std::function<void(const Say&)>& body) {
    Pipe pipe = make_pipe();
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw Failure(std::string("can't fork: ") + std::strerror(errno));
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      signal(SIGPIPE, SIG_IGN);
      const auto say = [&](const std::string& line) {
        const std::string text = line + "\n";
        if (write(pipe.writing.get(), text.data(), text.size()) < 0) _exit(1);
      };
      try {
        body(say);
      } catch (const std::exception& error) {
        say("failed " + message_of(error));
        _exit(1);
      }
      _exit(0);
    }
    from_ = std::move(pipe.reading);
  }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  int descriptor() const { return from_.get(); }
  void send(int signal) const { kill(pid_, signal); }
  void end() {
    if (pid_ > 0) {
      send(SIGKILL);
      waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  // What it has said since the last time, waiting for something up to `patience`; empty and ended()
  // when it has ended.
  std::vector<std::string> lines(std::chrono::milliseconds patience) {
    pollfd wait{from_.get(), POLLIN, 0};
    if (!ended_ && poll(&wait, 1, static_cast<int>(patience.count())) > 0) {
      char buffer[65536];
      const ssize_t got = read(from_.get(), buffer, sizeof buffer);
      if (got > 0) pending_.append(buffer, static_cast<std::size_t>(got));
      ended_ = got == 0;
    }
    std::vector<std::string> lines;
    for (std::size_t at; (at = pending_.find('\n')) != std::string::npos;) {
      lines.push_back(pending_.substr(0, at));
      pending_.erase(0, at + 1);
    }
    return lines;
  }
  bool ended() const { return ended_; }
  std::string line() {  // the next one, of one that says one
    const auto until = Clock::now() + test::patience();
    while (!ended_ && Clock::now() < until) {
      const auto some = lines(std::chrono::milliseconds(1000));
      if (!some.empty()) return some.front();
    }
    throw Failure("a process said nothing");
  }

 private:
  pid_t pid_ = -1;
  Descriptor from_;
  std::string pending_;
  bool ended_ = false;
};

}  // namespace convoy::soak
