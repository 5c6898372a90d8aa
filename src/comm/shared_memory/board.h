// Where the ranks of one host post what they are doing: a slot for each collective in flight.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "comm/engine/call.h"
#include "convoy/base/shared_memory.h"

namespace convoy::comm {

// Where a rank's data of one collective can be reached by the others. Element `at` of slice s lies
// at  base + (begins(s) + at) * size  in memory that others reach as it is (direct), and at
// base + (s * capacity + at mod capacity) * size  in a staging block, which holds a window of each
// slice.
struct Location {
  enum class Kind : std::uint32_t { none, process, region, staging };
  Kind kind = Kind::none;
  std::uint32_t region = 0;    // of Kind::region
  std::uint64_t place = 0;     // address, offset in the region, or in the rank's part of the board
  std::uint64_t capacity = 0;  // elements per slice, of Kind::staging
};

// What one rank shows of one collective. The owner writes everything but `taken`; `id` last, when
// the rest may be read.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> id;
  Call call;
  Location location;
  // How far the owner is, in elements of each slice: what the others may read, and what it has
  // finished for the others.
  alignas(64) std::atomic<std::uint64_t> ready;
  std::atomic<std::uint64_t> finished;
  // How many of the others look at this slot no more.
  alignas(64) std::atomic<std::uint32_t> taken;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The slots, payloads and staging blocks of each rank of one communicator that is on this host, in
// shared memory. Slots are found by id, so that ranks may start their collectives in any order; up
// to kSlots of them at once, after which a rank waits for the oldest to be over on all ranks.
//
// Threads: any, for the functions; slots as their comments say.
class Board {
 public:
  static constexpr std::size_t kSlots = 64;
  // Data up to this size travels in the payload of a slot.
  static constexpr std::size_t kPayload = 16 << 10;
  static constexpr std::size_t kStages = 4;
  static constexpr std::size_t kStage = 512 << 10;
  static std::size_t bytes_per_rank();

  Board(SharedParts parts, std::size_t index);

  std::size_t size() const { return parts_.parts.size(); }
  std::size_t index() const { return index_; }

  // The id of the next collective with this match: the same on all ranks, since calls of one match
  // pair up in their order.
  std::uint64_t next_id(Match match);

  // A slot of this rank for a collective, with everything but its call set to zero; null while the
  // others still look at all of them.
  Slot* claim();
  // Shows it to the others.
  void publish(Slot& slot, std::uint64_t id);
  // The payload of a rank's slot.
  std::span<std::byte> payload(std::size_t rank, const Slot& slot) const;
  // The place of an own slot among the others.
  std::size_t number(const Slot& slot) const;

  // The slot of a rank with this id, once it is there. `hint` is where it is if both ranks start
  // their collectives in the same order; `seen` (0 at first) keeps the search short.
  Slot* find(std::size_t rank, std::uint64_t id, std::size_t hint, std::uint64_t& seen) const;

  // A staging block of this rank, or an empty span if all are in use.
  std::span<std::byte> take_stage();
  void give_stage(std::span<std::byte> stage);

  std::span<std::byte> part(std::size_t rank) const { return parts_.parts[rank]; }

 private:
  struct Header;
  Header& header(std::size_t rank) const;
  std::span<Slot> slots(std::size_t rank) const;

  SharedParts parts_;
  std::size_t index_;
  std::mutex mutex_;  // of what follows, and of the next slot's being taken
  std::size_t next_ = 0;
  std::unordered_map<std::uint32_t, std::uint64_t> calls_;  // by match
  std::vector<std::span<std::byte>> stages_;                // free ones
};

}  // namespace convoy::comm
