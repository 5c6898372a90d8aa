#include "cli/launch/output.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>

namespace convoy::cli {

void LineOutput::add(std::string_view text) {
  if (closed_ || text.empty()) return;
  if (line_.open) pending_ += "\r\x1b[K";
  line_.open = false;
  pending_ += text;
}

void LineOutput::draw(std::string_view bytes) {
  if (closed_ || bytes.empty()) return;
  pending_ += bytes;
  line_.open = bytes.back() != '\n';
}

void LineOutput::advance() {
  pollfd ready{target_, POLLOUT, 0};
  // Others may use this descriptor, so it isn't made non-blocking; a pipe that can be written to
  // takes PIPE_BUF bytes at once.
  while (written_ < pending_.size() && poll(&ready, 1, 0) > 0) {
    const std::size_t count = std::min<std::size_t>(pending_.size() - written_, PIPE_BUF);
    const ssize_t written = write(target_, pending_.data() + written_, count);
    if (written >= 0) {
      written_ += static_cast<std::size_t>(written);
    } else if (errno != EAGAIN && errno != EINTR) {
      closed_ = true;
      written_ = pending_.size();
    }
  }
  // Not a little of very much again and again.
  if (written_ < pending_.size() && (written_ < kMost || written_ < pending_.size() / 2)) return;
  pending_.erase(0, written_);
  written_ = 0;
}

void print_the_rest(LineOutput& out, LineOutput& err, int signals) {
  bool told = false;
  while (!told) {
    out.advance();
    err.advance();
    std::array<pollfd, 3> ready{
        {{signals, POLLIN, 0}, {out.writable_fd(), POLLOUT, 0}, {err.writable_fd(), POLLOUT, 0}}};
    const bool done = ready[1].fd < 0 && ready[2].fd < 0;
    poll(ready.data(), ready.size(), done ? 0 : -1);
    signalfd_siginfo info{};
    while (read(signals, &info, sizeof info) == sizeof info)
      told = told || info.ssi_signo != SIGCHLD;
    if (done) return;
  }
}

}  // namespace convoy::cli
