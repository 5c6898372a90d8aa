#include "train/strategies/partitioned/links.h"

#include <algorithm>

namespace convoy::train {
namespace {

// Below those of buckets.
constexpr int kFirstRow = 1000;

}  // namespace

void Links::count(Kind kind, std::uint64_t sent, std::uint64_t received) {
  Payload& payload = payload_[static_cast<std::size_t>(kind)];
  payload.sent += sent;
  payload.received += received;
}

void Links::wait(comm::Operation& operation, Kind kind, const std::string& what,
                 Clock::time_point begin) {
  const auto start = Clock::now();
  operation.wait();
  const auto end = Clock::now();
  const bool back = kind == Kind::gradients || kind == Kind::score_gradients;
  (back ? waited_backward_ : waited_forward_) += std::chrono::duration<double>(end - start).count();
  if (timeline_ == nullptr) return;
  const auto i = static_cast<std::size_t>(kind);
  const int row = kFirstRow + static_cast<int>(i);
  timeline_->name_row(row, std::string("exchange: ") + kNames[i]);
  // One after the other on their row, although several may be under way.
  if (end > free_[i]) timeline_->add(row, what, std::max(begin, free_[i]), end);
  free_[i] = std::max(free_[i], end);
}

}  // namespace convoy::train
