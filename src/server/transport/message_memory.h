// Memory of whole messages, used again: fresh memory costs more than a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace convoy::server::transport {

// Threads: any. What was taken may outlive this.
class MessageMemory {
 public:
  // Keeps memory of so many bytes for the next messages: also that of one message of all of them.
  explicit MessageMemory(std::uint64_t bytes);
  void keep(std::uint64_t bytes);  // so many from now on
  std::uint64_t kept() const;      // bytes that no message has now

  struct Run {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  // What an address is counted by: a cache line.
  static constexpr std::size_t kLine = 64;
  // A run of `size` bytes, with anything in it, whose address is `at` modulo kLine. Throws
  // std::bad_alloc.
  Run take(std::size_t size, std::size_t at = 0);

 private:
  struct Free;
  std::shared_ptr<Free> free_;
};

}  // namespace convoy::server::transport
