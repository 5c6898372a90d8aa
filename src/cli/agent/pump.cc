#include "cli/agent/pump.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace convoy::cli {
namespace {

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

Pump::Pump(Descriptor source, int sink, int log, std::string label)
    : source_(std::move(source)), sink_(sink), log_(log), label_(std::move(label)) {
  make_nonblocking(source_.get());
  make_nonblocking(sink_);
}

int Pump::readable_fd() const { return pending_.empty() ? source_.get() : -1; }
int Pump::writable_fd() const { return pending_.empty() ? -1 : sink_; }
bool Pump::done() const { return !source_.open() && pending_.empty(); }
int Pump::take_log_error() { return std::exchange(log_error_, 0); }

void Pump::end_input() {
  if (!source_.open() || rest_) return;
  int bytes = 0;
  ioctl(source_.get(), FIONREAD, &bytes);
  rest_ = static_cast<std::size_t>(bytes);
  if (bytes == 0) close_source();
}

void Pump::close_source() {
  source_.reset();
  cutter_.finish([this](std::string_view line) { take_line(line); });
  write_log();
}

void Pump::advance() {
  if (pending_.empty() && source_.open()) {
    std::array<char, 65536> buffer;
    const std::size_t most = std::min(buffer.size(), rest_.value_or(buffer.size()));
    const ssize_t count = read(source_.get(), buffer.data(), most);
    const bool ended = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    if (count > 0) take({buffer.data(), static_cast<std::size_t>(count)});
    if (rest_ && count > 0) *rest_ -= static_cast<std::size_t>(count);
    if (ended || rest_ == std::size_t{0}) close_source();
  }
  while (!pending_.empty()) {
    const ssize_t written = write(sink_, pending_.data(), pending_.size());
    if (written >= 0) {
      pending_.erase(0, static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      pending_.clear();  // nobody reads any more; the log goes on
    }
  }
}

void Pump::take(std::string_view bytes) {
  if (label_.empty()) pending_ += bytes;
  cutter_.feed(bytes, [this](std::string_view line) { take_line(line); });
  write_log();
}

void Pump::take_line(std::string_view line) {
  lines_ += line;
  if (!label_.empty()) pending_.append(label_).append(line);
}

void Pump::write_log() {
  std::size_t done = 0;
  while (log_ >= 0 && done < lines_.size()) {
    const ssize_t written = write(log_, lines_.data() + done, lines_.size() - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      log_error_ = errno;
      log_ = -1;
    }
  }
  lines_.clear();
}

}  // namespace convoy::cli
