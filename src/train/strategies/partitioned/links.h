// The connections of a rank to those that share a network with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "convoy/base/clock.h"
#include "convoy/comm/communicator.h"
#include "convoy/train/timeline.h"

namespace convoy::train {

// Counts what is sent, once for each rank that it is for, and the time spent waiting, both since it
// was made: what an update or an epoch took is the difference. One thread at a time.
class Links {
 public:
  enum class Kind : std::uint8_t {
    inputs,       // of the network
    activations,  // between layers
    gradients,    // of those
    scores,       // to where the samples are
    score_gradients,
    loss,    // of divided scores, what is added up for it
    numbers  // of samples
  };
  static constexpr std::size_t kKinds = 7;
  static constexpr std::array<const char*, kKinds> kNames{
      "inputs", "activations",   "gradients", "scores", "gradients of scores",
      "loss",   "sample numbers"};
  struct Payload {  // bytes
    std::uint64_t sent = 0, received = 0;
  };

  explicit Links(const comm::Communicator& group) : group_(group.duplicate()) {}

  const comm::Communicator& group() const { return group_; }
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  void count(Kind kind, std::uint64_t sent, std::uint64_t received);
  const Payload& payload(Kind kind) const { return payload_[static_cast<std::size_t>(kind)]; }

  // Waits, which is counted; what is told of it goes to the timeline.
  void wait(comm::Operation& operation, Kind kind, const std::string& what,
            Clock::time_point begin);
  // Spent in wait(), so far: in forward, and in backward.
  double waited_forward() const { return waited_forward_; }
  double waited_backward() const { return waited_backward_; }

  void set_timeline(Timeline* timeline) {
    if (timeline != timeline_) free_.fill({});
    timeline_ = timeline;
  }

 private:
  comm::Communicator group_;
  std::array<Payload, kKinds> payload_{};
  double waited_forward_ = 0, waited_backward_ = 0;
  Timeline* timeline_ = nullptr;
  std::array<Clock::time_point, kKinds> free_{};  // of each row of the timeline
};

}  // namespace convoy::train
