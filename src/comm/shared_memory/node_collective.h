// One collective among the ranks of a node: this rank's slot, and the others' as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/engine/call.h"
#include "comm/shared_memory/node.h"

namespace convoy::comm {

// Goes through these states, in this order:
//
//   claim()     until it returns true: this rank has a slot
//               the caller fills the slot's location and counters, and its payload
//   publish()   once: from here on the others read the slot, and the owner changes counters only
//   complete()  until it returns true: the slots of all others are known
//   leave()     once, when this rank reads nothing of the others any more and the others have
//               finished what it waited for: all slots may be used anew
//
// Threads: one at a time. Lifetime: the node outlives it.
class NodeCollective {
 public:
  // `call` is the whole operation's, and so is `turn` where it has several of these, else null;
  // `id` comes from Board::next_id() of this rank.
  NodeCollective(Node& node, const Call& call, std::uint64_t id, const Board::Turn* turn = nullptr);

  ~NodeCollective();
  NodeCollective(const NodeCollective&) = delete;
  NodeCollective& operator=(const NodeCollective&) = delete;

  // Takes a slot with what is needed, unless it has one; false while there is none.
  bool claim(const Board::Need& need);
  // REQUIRES: claimed, not left, of this and the next.
  Slot& own();
  std::span<std::byte> own_payload();
  // What claim() gave for staging; the caller's to give back to the board. REQUIRES: claimed.
  std::span<std::byte> take_staging();
  // Shows the own slot to the others. REQUIRES: not published yet.
  void publish();

  // Whether all others are there; looks for those who are missing. Throws Failure, naming both
  // ranks and calls, when one of them does something else. REQUIRES: published, not left.
  bool complete();
  // Give the slot of a member (this rank's own included), and its payload. REQUIRES: complete, not
  // left.
  const Slot& slot(std::size_t member) const;
  std::span<std::byte> payload(std::size_t member) const;
  // The least of the others' counters. Throws as leave() does. REQUIRES: complete, not left.
  std::uint64_t least_ready() const { return least(&Slot::ready); }
  std::uint64_t least_finished() const { return least(&Slot::finished); }
  // Throws Failure if one of the others has given up: what was read of it may be anything.
  // REQUIRES: complete, not left yet.
  void leave();

  // Adds the ranks that are not there; all others while this rank has no slot.
  void absent(std::vector<int>& ranks) const;
  // And those that are there, but whose counter is below `wanted`.
  void behind(std::atomic<std::uint64_t> Slot::*counter, std::uint64_t wanted,
              std::vector<int>& ranks) const;

  Node& node() const { return node_; }

  // While one lives this rank may be in the memory of the others: who gives the collective up waits
  // for its end. Throws as leave() does. REQUIRES: complete, not left.
  class AmongOthers {
   public:
    explicit AmongOthers(NodeCollective& collective);
    ~AmongOthers() { slot_.busy.store(0, std::memory_order_release); }
    AmongOthers(const AmongOthers&) = delete;
    AmongOthers& operator=(const AmongOthers&) = delete;

   private:
    Slot& slot_;
  };

 private:
  enum class State { created, claimed, published, complete, left };

  std::uint64_t least(std::atomic<std::uint64_t> Slot::*counter) const;
  void check_members() const;
  void wait_for_others() noexcept;
  [[noreturn]] void throw_withdrawn(std::size_t member) const;

  Node& node_;
  Call call_;
  std::uint64_t id_;
  const Board::Turn* turn_;
  State state_ = State::created;
  Board::Place place_ = 0;
  std::span<std::byte> staging_;
  Slot* own_ = nullptr;
  struct Member {
    Slot* slot = nullptr;  // once it is there
    Board::Search search;
  };
  std::vector<Member> members_;
  std::size_t missing_;
};

}  // namespace convoy::comm
