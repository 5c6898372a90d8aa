// What the ranks of a group send each other so that each can compute its part of a layer.
#pragma once

#include <torch/torch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"
#include "convoy/comm/communicator.h"
#include "convoy/train/timeline.h"

namespace convoy::train {

// Counts its payload: what ranks have for others, once for each that it is for. One thread at a
// time; every rank of the group makes the same calls in the same order.
class Exchange {
 public:
  enum class Kind : std::uint8_t {
    samples,      // their numbers
    activations,  // before the partitioned layers, to all
    gradients,    // of those, back to whose samples they are
    between,      // partitioned layers: activations, and gradients of them
    scores,       // and gradients of them
  };
  static constexpr std::size_t kKinds = 5;
  static constexpr std::array<const char*, kKinds> kNames{"sample numbers", "activations",
                                                          "gradients", "between layers", "scores"};
  struct Payload {  // bytes
    std::uint64_t sent = 0, received = 0;
  };

  // This is one under way. It ends before it is destroyed.
  class Transfer {
   public:
    Transfer() = default;
    Transfer(Transfer&&) noexcept = default;
    // One that is under way ends before its tensors go.
    Transfer& operator=(Transfer&& other) {
      operation_ = std::move(other.operation_);
      sent_ = std::move(other.sent_);
      received_ = std::move(other.received_);
      kind_ = other.kind_;
      key_ = other.key_;
      bytes_ = other.bytes_;
      begin_ = other.begin_;
      return *this;
    }

    bool valid() const { return operation_.valid(); }
    bool done() { return operation_.done(); }

   private:
    friend class Exchange;
    Kind kind_ = Kind::samples;
    std::size_t key_ = 0;
    std::uint64_t bytes_ = 0;
    Clock::time_point begin_;
    torch::Tensor sent_, received_;
    comm::Operation operation_;  // ends before its tensors do
  };

  explicit Exchange(const comm::Communicator& group);

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  const comm::Communicator& group() const { return group_; }

  // Elements of `mine`, to every rank. What comes of it are those of all, one rank after the other:
  // `counts` has how many each has. Transfers of one kind that are under way at a time have
  // different keys, below 65536.
  Transfer start_to_all(Kind kind, std::size_t key, const torch::Tensor& mine,
                        const std::vector<std::size_t>& counts);
  // `parts` holds to[q] elements for each rank q, one after the other; what comes of it from[q] of
  // each.
  Transfer start_to_each(Kind kind, std::size_t key, const torch::Tensor& parts,
                         const std::vector<std::size_t>& to, const std::vector<std::size_t>& from);
  // Waits for it. A tensor of one dimension, on the CPU.
  torch::Tensor finish(Transfer& transfer);

  const Payload& payload(Kind kind) const { return payload_[static_cast<std::size_t>(kind)]; }
  // Spent in finish().
  double waited_seconds() const { return waited_; }
  // Where the spans of transfers go; null: nowhere.
  void set_timeline(Timeline* timeline);

 private:
  Transfer start(Kind kind, std::size_t key, const torch::Tensor& send,
                 const std::vector<std::size_t>& to, const std::vector<std::size_t>& to_offsets,
                 const std::vector<std::size_t>& from);

  comm::Communicator group_;
  std::array<Payload, kKinds> payload_{};
  double waited_ = 0;
  Timeline* timeline_ = nullptr;
  std::array<Clock::time_point, kKinds> free_{};  // of each row of the timeline
};

// What came from each of `count` ranks, equal parts one after the other, added up in their order.
torch::Tensor sum_of_parts(const torch::Tensor& parts, int count, at::IntArrayRef shape,
                           at::ScalarType type);

}  // namespace convoy::train
