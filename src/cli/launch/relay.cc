#include "cli/launch/relay.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace convoy::cli {

Relay::Relay(Descriptor source, LineOutput& target, StreamFilter filter)
    : source_(std::move(source)), target_(&target), filter_(std::move(filter)) {}

void Relay::forward(const std::string& bytes) {
  if (bytes.empty()) return;
  mid_line_ = bytes.back() != '\n';
  target_->add(bytes);
}

void Relay::read_source(bool whole) {
  pollfd ready{source_.get(), POLLIN, 0};
  static constexpr std::size_t kChunk = 65536;
  std::array<char, kChunk> buffer;
  while (source_.open() && (whole || !target_->full()) && poll(&ready, 1, 0) > 0) {
    const ssize_t count = read(source_.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      source_.reset();
      break;
    }
    forward(filter_.feed({buffer.data(), static_cast<std::size_t>(count)}));
    last_bytes_ = Clock::now();
    if (count < static_cast<ssize_t>(buffer.size())) break;
  }
}

void Relay::release_held() {
  if (filter_.holds() && (!source_.open() || Clock::now() - last_bytes_ > kHold))
    forward(filter_.release());
}

void Relay::advance(bool whole) {
  read_source(whole);
  release_held();
}

bool Relay::advance_whole(std::chrono::milliseconds patience) {
  pollfd ready{source_.get(), POLLIN, 0};
  const bool any = poll(&ready, 1, static_cast<int>(patience.count())) != 0;
  read_source(true);
  release_held();
  return any;
}

void Relay::close() {
  source_.reset();
  release_held();
}

}  // namespace convoy::cli
