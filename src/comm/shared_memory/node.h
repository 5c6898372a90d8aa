// The ranks of one communicator that are on this host, and the memory they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/shared_memory/board.h"

namespace convoy::comm {

// Threads: any.
class Node {
 public:
  // `members` are ranks of the communicator, in their order; `board` has a part for each.
  // `crowded`: this rank has to share a core, see is_crowded.
  Node(std::vector<int> members, SharedParts board, std::size_t index, bool crowded);

  std::size_t size() const { return members_.size(); }
  std::size_t index() const { return board_.index(); }
  // Whether ranks share cores: then one that waits has to let others run.
  bool crowded() const { return crowded_; }
  int rank_of(std::size_t member) const { return members_[member]; }
  const std::vector<int>& members() const { return members_; }
  Board& board() { return board_; }

  // For tests: threads of one process that go the ways of processes.
  void keep_apart() { one_process_ = false; }

  // Memory that all members have mapped. Collective; every rank numbers its regions alike. Regions
  // stay mapped as long as somebody holds the mapping.
  std::uint32_t add_region(const SharedParts& parts);
  void forget_region(std::uint32_t region);

  // How the others reach `bytes` at `data` without a copy; Kind::none if they can't.
  Location locate(const void* data, std::size_t bytes) const;
  // Where this process finds what a member has published.
  std::byte* reach(std::size_t member, const Location& location) const;

 private:
  struct Region {
    std::uint32_t number = 0;
    SharedParts shared;
  };

  std::vector<int> members_;
  bool one_process_;
  bool crowded_;
  Board board_;
  mutable std::mutex mutex_;  // of regions_
  std::vector<Region> regions_;
  std::uint32_t next_region_ = 0;
};

}  // namespace convoy::comm
