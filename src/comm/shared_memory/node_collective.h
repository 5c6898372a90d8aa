// One collective among the ranks of a node: this rank's slot, and the others' as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/engine/call.h"
#include "comm/shared_memory/node.h"

namespace convoy::comm {

// Owned by one operation, and used by one thread at a time; the node outlives it.
class NodeCollective {
 public:
  // `call` is the whole operation's; `id` comes from Board::next_id() of this rank.
  NodeCollective(Node& node, const Call& call, std::uint64_t id);

  // Takes a slot, unless it has one; false while none is free.
  bool claim();
  Slot& own() { return *own_; }
  // The payload of the own slot, and of another member's.
  std::span<std::byte> own_payload() const;
  std::span<std::byte> payload(std::size_t member) const;
  // Shows the own slot to the others.
  void publish();

  // Whether all others are there; looks for those who are missing. Throws Failure, naming both
  // ranks and calls, when one of them does something else.
  bool complete();
  // Of a member that is there; the own one included.
  const Slot& slot(std::size_t member) const { return *slots_[member]; }
  bool there(std::size_t member) const { return slots_[member] != nullptr; }
  // Tells the others that this rank looks at their slots no more.
  void leave();

  // The least of the others' counters.
  std::uint64_t least_ready() const { return least(&Slot::ready); }
  std::uint64_t least_finished() const { return least(&Slot::finished); }

  // Ranks that are not there, or whose counter is behind.
  void behind(std::atomic<std::uint64_t> Slot::*counter, std::uint64_t wanted,
              std::vector<int>& ranks) const;

  Node& node() const { return node_; }

 private:
  std::uint64_t least(std::atomic<std::uint64_t> Slot::*counter) const;

  Node& node_;
  Call call_;
  std::uint64_t id_;
  Slot* own_ = nullptr;
  std::vector<Slot*> slots_;         // by member
  std::vector<std::uint64_t> seen_;  // for Board::find
  std::size_t missing_;
};

}  // namespace convoy::comm
