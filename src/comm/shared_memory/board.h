// Where the ranks of one host post what they are doing: a slot for each collective in flight.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "comm/engine/call.h"
#include "convoy/base/clock.h"
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

// A counter of a slot whose owner has given the collective up.
inline constexpr std::uint64_t kWithdrawn = ~std::uint64_t{0};

// What one rank shows of one collective. The owner writes everything but `taken`; `id` last, when
// the rest may be read.
struct alignas(64) Slot {
  std::atomic<std::uint64_t> id;
  Call call;
  Location location;
  std::uint32_t number;  // among the owner's slots
  // Not 0: the owner has given the collective up, and its data may have changed since. With what
  // the others read first, so that it costs them no line of its own.
  std::atomic<std::uint32_t> withdrawn;
  // How far the owner is, in elements of each slice: what the others may read, and what it has
  // finished for the others.
  alignas(64) std::atomic<std::uint64_t> ready;
  std::atomic<std::uint64_t> finished;
  // Not 0 while the owner reads or writes memory of the others.
  std::atomic<std::uint32_t> busy;
  // How many of the others look at this slot no more.
  alignas(64) std::atomic<std::uint32_t> taken;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Slot) == 192);
static_assert(offsetof(Slot, withdrawn) < 64);

// The slots, payloads and staging blocks of each rank of one communicator that is on this host, in
// shared memory. Slots are found by id, so that ranks may start their collectives in any order.
//
// A ring of kRing slots is used in turn: ranks that start their collectives in one order have them
// at the same place, where a peer looks first. A collective whose place in the ring is still in use
// gets one of the slots beyond, of which there come to be as many as are needed at once, up to
// kMostSlots. Memory is put behind slots, payloads and staging blocks when they are first used.
// What kCommitted bytes hold is there from the start: the ring, a payload and a short staging
// block, with which one collective after the other works even if the host has no more.
//
// Threads: any, for the functions; slots as their comments say.
class Board {
 public:
  static constexpr std::size_t kRing = 64;
  static constexpr std::size_t kMostSlots = std::size_t{1} << 14;
  // Data up to this size travels in the payload of a slot.
  static constexpr std::size_t kPayload = 16 << 10;
  static constexpr std::size_t kStages = 4;
  static constexpr std::size_t kStage = 1 << 20;
  // Say how large a rank's part is: all of its addresses, and those with memory behind them from
  // the start.
  static std::size_t bytes_per_rank();
  static std::size_t committed_per_rank();

  // `parts` as share_memory() gives them for these two sizes.
  Board(SharedParts parts, std::size_t index);

  std::size_t size() const { return parts_.parts.size(); }
  std::size_t index() const { return index_; }

  // The id of the next collective with this match: the same on all ranks, since calls of one match
  // pair up in their order.
  std::uint64_t next_id(Match match);

  // What a collective needs of this rank's part.
  struct Need {
    std::size_t payload = 0;  // bytes of the slot's payload, at most kPayload
    bool staging = false;     // a staging block or, where all are in use, the whole payload
  };
  struct Claimed {
    Slot* slot = nullptr;
    std::span<std::byte> staging;  // shorter than kStage where the host has little memory
  };
  // One that waits for what claim() could not give.
  using Place = std::uint64_t;
  // An operation that claims more than once does so when its messages let it, in an order that
  // ranks don't share; so one that others wait for might not get what later ones keep. Therefore
  // operations have turns in the order in which they begin, as they do on all ranks, and while
  // there are any, the first slot and its payload are kept for the one whose turn is the first of
  // them. Whatever the others have, that one can go on to its end.
  class Turn {
   public:
    explicit Turn(Board& board);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    friend class Board;
    Board& board_;
    Place place_;
  };
  // A slot of this rank, everything but its call set to zero, and all that is needed. No slot while
  // slots or memory are in use by others and the host has no more: then `place` (0 at first) is one
  // in the queue for them. Places are served in their order, so that ranks that start their
  // collectives in one order have the same ones under way, however few. `turn`: of an operation
  // that claims more than once, else null.
  Claimed claim(const Need& need, Place& place, const Turn* turn = nullptr);
  // Instead of claiming again. REQUIRES: `place` is not 0.
  void leave_queue(Place place);
  // For a staging block that is needed no more; a payload goes with its slot.
  void give_staging(std::span<std::byte> staging);
  // Shows it to the others. REQUIRES: `slot` came from claim(), and was not shown since.
  void publish(Slot& slot, std::uint64_t id);
  // This rank needs its slot no more; it is free when no other rank looks at it either.
  // REQUIRES: as publish(), and `slot` was shown.
  void release(Slot& slot);
  // The payload of a rank's slot.
  std::span<std::byte> payload(std::size_t rank, const Slot& slot) const;

  struct Search {
    std::uint64_t seen = 0;   // published by the rank at the last search
    std::uint32_t looks = 0;  // at the place of the hint
  };
  // The slot of a rank with this id, once it is there. `hint` is where it is if both ranks start
  // their collectives in the same order; `search` is that of this id and rank, from one call to the
  // next.
  Slot* find(std::size_t rank, std::uint64_t id, std::size_t hint, Search& search);

  std::span<std::byte> part(std::size_t rank) const { return parts_.parts[rank]; }

  // For tests: the slots of this rank end here, as if the host had no memory for more.
  void limit_slots(std::size_t most) { most_slots_ = most; }

 private:
  struct Header;
  // Where the ids of a peer are.
  struct Index {
    std::uint64_t seen = 0;
    std::vector<std::uint64_t> ids;  // by number
    std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  };

  Header& header(std::size_t rank) const;
  Slot& slot(std::size_t rank, std::size_t number) const;
  bool commit(std::span<std::byte> part);
  bool commit_payload(std::size_t number, std::size_t bytes);
  std::span<std::byte> take_staging();
  void return_staging(std::span<std::byte> staging);
  bool free(std::size_t number) const;
  bool add_slot();
  Slot* take(std::size_t number);
  Slot* claim_slot(std::size_t payload);
  Claimed claim_all(const Need& need);
  Claimed claim_first(const Need& need);

  SharedParts parts_;
  std::size_t index_;
  // By number of slot: whether this rank has it in use. Apart from the slots, whose lines others
  // read.
  std::unique_ptr<std::atomic<bool>[]> claimed_;
  std::mutex mutex_;        // of what follows
  std::size_t next_ = 0;    // in the ring
  std::size_t beyond_ = 0;  // where the search beyond the ring goes on
  std::size_t most_slots_ = kMostSlots;
  std::deque<Place> queue_;
  std::deque<Place> turns_;
  Place last_place_ = 0;
  // The host has refused so much memory, and is not asked for as much again until then.
  std::size_t refused_ = std::numeric_limits<std::size_t>::max();
  Clock::time_point ask_again_;
  std::vector<std::uint8_t> pages_;  // of payloads, with memory behind them; by number of slot
  std::vector<Index> indices_;       // by rank
  std::unordered_map<std::uint32_t, std::uint64_t> calls_;  // by match
  std::vector<std::span<std::byte>> stages_;                // free, with memory behind them
  std::vector<std::span<std::byte>> new_stages_;            // without
};

}  // namespace convoy::comm
