#include "cli/job/output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace convoy::cli {

void LineOutput::add(std::string_view text) {
  if (!closed_) pending_ += text;
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
  if (written_ < pending_.size() && written_ < kMost) return;
  pending_.erase(0, written_);
  written_ = 0;
}

}  // namespace convoy::cli
