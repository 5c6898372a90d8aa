// How much memory each side lets the other fill.
//
// A message is charged its size and an overhead from the moment its first byte is sent until its
// receiver has done with it and gives the credit back. A message starts only when all of it fits
// into what is left, so that two that have each got half of the memory can't wait for each other.
// Small messages are charged apart, and need not wait until a large one fits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "convoy/base/error.h"

namespace convoy::server::transport {

struct Limits {
  std::uint64_t largest_message = 1ull << 30;  // bytes
  std::uint64_t memory = 1ull << 30;           // bytes of large messages at once
  std::uint64_t small_memory = 4ull << 20;     // bytes of small ones at once

  // Throws UsageError where a message could never fit.
  void check() const;
};

struct Charge {
  static constexpr std::uint64_t kOverhead = 512;  // of a message, whatever its size
  static constexpr std::uint64_t kSmall = 64 << 10;

  std::uint64_t small = 0;
  std::uint64_t large = 0;

  static Charge of(std::uint64_t size) {
    return size <= kSmall ? Charge{size + kOverhead, 0} : Charge{0, size + kOverhead};
  }
  Charge& operator+=(const Charge& other) {
    small += other.small;
    large += other.large;
    return *this;
  }
};

// What is taken of the receiver's memory; the sender and the receiver each keep one, and no one
// trusts the other's.
class Credits {
 public:
  explicit Credits(const Limits& limits = {}) : limits_(limits) {}

  const Limits& limits() const { return limits_; }
  bool fits(const Charge& charge) const {
    return charge.small <= limits_.small_memory - taken_.small &&
           charge.large <= most_large() - taken_.large;
  }
  // REQUIRES: fits(charge).
  void take(const Charge& charge) { taken_ += charge; }
  // Throws Failure for more than was taken.
  void give_back(const Charge& charge) {
    if (charge.small > taken_.small || charge.large > taken_.large) {
      throw Failure("the peer gave back more credits than it had");
    }
    taken_.small -= charge.small;
    taken_.large -= charge.large;
  }
  const Charge& taken() const { return taken_; }

 private:
  // The largest message fits, with its overhead.
  std::uint64_t most_large() const { return limits_.memory + Charge::kOverhead; }

  Limits limits_;
  Charge taken_;
};

inline void Limits::check() const {
  if (largest_message > memory) {
    throw UsageError("the largest message (" + std::to_string(largest_message) +
                     " bytes) does not fit into the memory for each client (" +
                     std::to_string(memory) + " bytes): raise the latter");
  }
  if (small_memory < Charge::kSmall + Charge::kOverhead) {
    throw UsageError("the memory for small messages must be at least " +
                     std::to_string(Charge::kSmall + Charge::kOverhead) + " bytes, not " +
                     std::to_string(small_memory));
  }
}

}  // namespace convoy::server::transport
