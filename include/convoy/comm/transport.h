// This says how bytes get from one rank to another: the interface under every collective.
//
// Implementations: MPI (mpi.h) and threads of one process (threads.h). Ranks are numbered
// 0 .. size-1 within a transport; a transport whose membership changes would hand out a new
// Transport for each membership, as split() does.
//
// Threads: one call at a time; convoy::comm's engine sees to it. No call here blocks, but split(),
// allreduce() and await_message().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convoy/comm/types.h"

namespace convoy::comm {

class Transport;

// This is a message under way. Owns the transport's request; dropping an unfinished one cancels it,
// after which the transport does not touch the buffer any more. Messages are dropped when a world
// fails. Where one is already moving (over MPI) this waits for its end, up to a second for all
// messages of the transport together: a peer that has died or stopped, or an MPI that does not say
// when (MPICH on UCX), may keep it from ending, and then the buffer is in use until the process
// ends, which is soon.
class Ticket {
 public:
  Ticket() = default;
  Ticket(Transport& transport, void* request, int peer, bool sending)
      : transport_(&transport), request_(request), peer_(peer), sending_(sending) {}
  Ticket(Ticket&& other) noexcept { swap(other); }
  Ticket& operator=(Ticket&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Ticket();

  // Says whether the message is done, which releases it: true from then on. Throws Failure when the
  // peer sent another number of bytes than the receive asked for, or the transport has failed.
  bool poll();
  bool pending() const { return request_ != nullptr; }
  int peer() const { return peer_; }
  bool sending() const { return sending_; }

 private:
  void swap(Ticket& other) noexcept {
    std::swap(transport_, other.transport_);
    std::swap(request_, other.request_);
    std::swap(peer_, other.peer_);
    std::swap(sending_, other.sending_);
  }
  Transport* transport_ = nullptr;
  void* request_ = nullptr;
  int peer_ = -1;
  bool sending_ = false;
};

struct Traffic {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Gives the number that a rank of this transport has in the transport it was split from in the
  // first place.
  virtual int world_rank(int rank) const = 0;

  // Tags have kTagBits bits. Messages of one (sender, receiver, tag) arrive in the order of
  // sending.
  static constexpr int kTagBits = 28;
  // This is the most bytes of one message, here and at most anywhere; the same on all ranks.
  // Collectives cut what is longer.
  static constexpr std::size_t kMaxMessage = std::size_t{1} << 30;
  virtual std::size_t most_bytes() const { return kMaxMessage; }
  // Both throw std::length_error for a longer one.
  Ticket send(int to, std::uint32_t tag, std::span<const std::byte> data);
  Ticket receive(int from, std::uint32_t tag, std::span<std::byte> data);

  // Makes a new transport for the ranks that gave the same color, ordered by (key, rank); null for
  // color < 0. Collective over this transport, and blocking: call it while no operation is in
  // flight that another rank's call of split waits for.
  virtual std::unique_ptr<Transport> split(int color, int key) = 0;

  // Says whether the library below has an allreduce of its own, as MPI has. The same on every rank.
  virtual bool has_allreduce() const { return false; }
  // Calls it, in place, and blocks until it is done. All ranks call it with the same arguments, and
  // in the same order; who calls while another rank waits in another such call of the same
  // processes waits for ever. `op` is not average, and `data` has no 16-bit floats. What it sends
  // is not in traffic(). Throws Failure where the library does, and UsageError where there is none.
  virtual void allreduce(Buffer data, ReduceOp op);

  // These send and receive short notes (at most kMaxNote bytes) beside the messages, for the
  // watchdog. They never block.
  static constexpr std::size_t kMaxNote = 512;
  virtual void post_note(int to, std::span<const std::byte> note) = 0;
  virtual std::optional<std::pair<int, std::vector<std::byte>>> poll_note() = 0;

  // Lets the library below work on messages that are not of this transport, if it does so only
  // inside calls of its own, as MPI does. Never blocks.
  virtual void make_progress() {}

  // For who waits and has found that nothing moved: blocks until a message under way may be done,
  // and returns true; or returns false at once (the default), after which the caller pauses and
  // looks again. Right for transports where looking alone lets no time pass, as in a simulation,
  // and for ranks of one thread.
  virtual bool await_message() { return false; }

  // Says whether calls may come from any thread, one at a time, as most transports allow. If not,
  // they come from the thread that made the world. The same on every rank.
  virtual bool any_thread_may_call() const { return true; }

  // Ends all ranks of the whole world: processes exit with status 1; thread ranks get a Failure
  // with this reason from what they wait for.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Says whether abort() ends this process.
  virtual bool abort_ends_process() const = 0;

  const Traffic& traffic() const { return traffic_; }

 protected:
  friend class Ticket;
  virtual void* start_send(int to, std::uint32_t tag, std::span<const std::byte> data) = 0;
  virtual void* start_receive(int from, std::uint32_t tag, std::span<std::byte> data) = 0;
  virtual bool poll(void* request) = 0;
  virtual void cancel(void* request) noexcept = 0;

 private:
  void check_length(std::size_t bytes) const;
  Traffic traffic_;
};

}  // namespace convoy::comm
