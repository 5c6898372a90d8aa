#include "cli/bench/line_channel.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "cli/training/signals.h"
#include "convoy/base/error.h"

namespace convoy::cli {
namespace {

// A signal that comes just before the wait begins doesn't end it, so it is looked for now and then.
constexpr Clock::duration kLookForSignals = std::chrono::seconds(1);

}  // namespace

bool wait_for_input(std::span<pollfd> descriptors, Clock::time_point deadline) {
  for (;;) {
    if (stop_signal_came()) throw Failure("told to end");
    const Clock::duration left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) return false;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kLookForSignals));
    const int ready = poll(descriptors.data(), static_cast<nfds_t>(descriptors.size()),
                           static_cast<int>(wait.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR)
      throw Failure(std::string("can't wait for another process: ") + std::strerror(errno));
  }
}

void LineChannel::write_line(const std::string& line) const {
  const std::string text = line + "\n";
  // A program that has ended makes this a broken pipe; that must not end us.
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(to_.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  sigaction(SIGPIPE, &before, nullptr);
}

LineChannel::Got LineChannel::read_line(std::string& line, Clock::time_point deadline) {
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return Got::line;
    }
    if (!from_.open()) return Got::end;
    pollfd wait{from_.get(), POLLIN, 0};
    if (!wait_for_input({&wait, 1}, deadline)) return Got::nothing;
    char buffer[4096];
    const ssize_t count = read(from_.get(), buffer, sizeof buffer);
    if (count == 0 || (count < 0 && errno != EINTR)) return Got::end;
    if (count > 0) pending_.append(buffer, static_cast<std::size_t>(count));
  }
}

void LineChannel::close() {
  to_.reset();
  from_.reset();
}

}  // namespace convoy::cli
