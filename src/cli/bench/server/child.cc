#include "cli/bench/server/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::cli {
namespace {

// In front of each line.
constexpr char kSaid = ' ', kWrong = 'u', kFailed = 'f';

void write_line(int to, char kind, std::string text) {
  for (char& c : text) c = c == '\n' ? ' ' : c;
  const std::string line = kind + text + "\n";
  // Who reads has gone: so does this process, soon.
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t count = write(to, line.data() + at, line.size() - at);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) at += static_cast<std::size_t>(count);
  }
}

}  // namespace

Child Child::start(const std::function<void(const Say&)>& body) {
  Pipe pipe = make_pipe();
  const pid_t parent = getpid();
  Child child;
  child.pid_ = fork();
  if (child.pid_ < 0) throw Failure(std::string("can't fork: ") + std::strerror(errno));
  if (child.pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    // A key that ends the benchmark is its parent's business.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    const int to = pipe.writing.get();
    try {
      body([to](const std::string& line) { write_line(to, kSaid, line); });
    } catch (const UsageError& error) {
      write_line(to, kWrong, error.what());
    } catch (const std::exception& error) {
      write_line(to, kFailed, message_of(error));
    }
    _exit(0);
  }
  child.from_ = std::move(pipe.reading);
  return child;
}

Child Child::server(const std::function<std::string()>& body) {
  return start([&](const Say& say) {
    say(body());
    while (true) pause();
  });
}

Child Child::talker(const std::function<void(const Say&)>& body) { return start(body); }

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      from_(std::move(other.from_)),
      pending_(std::move(other.pending_)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(from_, other.from_);
  std::swap(pending_, other.pending_);
  return *this;
}

Child::~Child() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Child::next(std::string& line) {
  while (true) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      line = pending_.substr(1, end - 1);
      const char kind = pending_[0];
      pending_.erase(0, end + 1);
      if (kind == kWrong) throw UsageError(line);
      if (kind == kFailed) throw Failure(line);
      return true;
    }
    char buffer[4096];
    const ssize_t count = read(from_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) throw Failure("interrupted");
    if (count < 0) throw Failure(std::string("reading from a child: ") + std::strerror(errno));
    if (count == 0) return false;
    pending_.append(buffer, static_cast<std::size_t>(count));
  }
}

std::string Child::ready() {
  std::string line;
  if (next(line)) return line;
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  throw Failure("a process of the benchmark ended" +
                (WIFSIGNALED(status) ? " by " + describe_signal(WTERMSIG(status))
                                     : " with status " + std::to_string(WEXITSTATUS(status))));
}

}  // namespace convoy::cli
