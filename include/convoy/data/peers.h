// The little that a store (convoy/data/store.h) needs to know of communication: `data` itself has
// none. CommPeers (convoy/data/comm_peers.h) makes it of a communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace convoy::data {

// This is an exchange that is under way. Destroying one waits for it.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void wait() = 0;  // throws Failure when a rank is lost
};

// These are some ranks, numbered 0 .. size()-1. Every call but rank() and size() is collective: all
// ranks make it, in the same order, from one thread at a time. Throws Failure when a rank is lost.
class Peers {
 public:
  virtual ~Peers() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Brings every rank's text (any bytes), in the order of ranks, everywhere.
  virtual std::vector<std::string> gather(const std::string& text) = 0;
  // Gathers a number of every rank in the same way.
  std::vector<std::uint64_t> gather_numbers(std::uint64_t number);

  // Alltoallv: the first send_counts[0] bytes of `send` go to rank 0, the next send_counts[1] to
  // rank 1, ...; what rank q sent goes to the receive_counts[q] bytes of `receive` from
  // receive_offsets[q] on. receive_counts[q] on rank r is send_counts[r] on rank q. Several may be
  // under way at a time, and end in the order of their start; their memory must stay, and no other
  // call be made, until they have ended. Counts and offsets are copied.
  virtual std::unique_ptr<Exchange> start_exchange(
      std::span<const std::byte> send, std::span<const std::size_t> send_counts,
      std::span<std::byte> receive, std::span<const std::size_t> receive_counts,
      std::span<const std::size_t> receive_offsets) = 0;
  // Makes one that ends here, and receives what rank 0 sent, then what rank 1 sent, ....
  void exchange(std::span<const std::byte> send, std::span<const std::size_t> send_counts,
                std::span<std::byte> receive, std::span<const std::size_t> receive_counts);

  // Brings rank 0's bytes everywhere, whatever the others give. Each rank sends and receives about
  // as many as they are.
  void broadcast(std::vector<std::byte>& bytes);

  // Makes peers of the ranks that give the same color, in their order here.
  virtual std::unique_ptr<Peers> split(int color) = 0;
};

// Collective. Runs `work`, which may not communicate, on every rank, and returns when all are done:
// it may take some longer than others, and waiting for them is no failure of theirs. What it throws
// on any rank is thrown on every one, that of the first that does: UsageError as such, anything
// else as Failure.
void together(Peers& peers, const std::function<void()>& work);

// This is a rank by itself.
class Alone final : public Peers {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> gather(const std::string& text) override { return {text}; }
  std::unique_ptr<Exchange> start_exchange(std::span<const std::byte> send,
                                           std::span<const std::size_t> send_counts,
                                           std::span<std::byte> receive,
                                           std::span<const std::size_t> receive_counts,
                                           std::span<const std::size_t> receive_offsets) override;
  std::unique_ptr<Peers> split(int) override { return std::make_unique<Alone>(); }
};

}  // namespace convoy::data
