// Memory that collectives use without copies among the ranks of one host.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace convoy::comm {

// This is a block of memory of this rank that the other ranks of a communicator on this host have
// mapped: their collectives read and write it in place. From Communicator::allocate(). Copies refer
// to the same memory, which is released with the last of them.
//
// All ranks give up their part at the same point of their sequence of collectives: a rank that
// still uses its part in one gets a Failure on the ranks that have released theirs.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;

  std::span<std::byte> bytes() const { return bytes_; }
  // False where there is no shared memory (a host with one rank, or not enough of it): then this is
  // ordinary memory and collectives on it work as on any other.
  bool shared() const { return shared_; }

 private:
  friend class Communicator;
  RegisteredMemory(std::span<std::byte> bytes, bool shared, std::shared_ptr<void> owner)
      : bytes_(bytes), shared_(shared), owner_(std::move(owner)) {}

  std::span<std::byte> bytes_;
  bool shared_ = false;
  std::shared_ptr<void> owner_;
};

}  // namespace convoy::comm
