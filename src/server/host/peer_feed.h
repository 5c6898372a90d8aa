// What a primary sends to its backup or joiner in order.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"
#include "server/replication/messages.h"

namespace convoy::server::host {

// Answers, commands and pieces of snapshots are sent in batches, the next one when the one before
// has arrived. So they arrive in order, and what the node sends again, since it heard nothing for a
// while, is known to be there or on its way: a command of many MiB takes its time. Threads: one at
// a time.
class PeerFeed {
 public:
  struct Item {
    replication::Message message;
    replication::Index first = 0, last = 0;  // of commands that it is to have; 0: none
    std::uint64_t transfer = 0, size = 0;    // of a piece of a snapshot
  };
  struct Batch {
    std::uint64_t session = 0;  // of this feed, to be given back
    std::vector<Item> items;
  };

  // Of another session than the last one: what was to be sent of that is dropped.
  void add(Item item, std::uint64_t bytes, Clock::time_point now);
  // Whether there is something to send now.
  bool ready() const { return !busy_ && !items_.empty(); }
  // REQUIRES: ready(). Nothing is ready until it has ended.
  Batch take();
  // A batch has arrived, or not: then the node has to send again what came behind it.
  void ended(std::uint64_t session, bool arrived, Clock::time_point now);
  // In the node's session the other one has commands up to `last` and can't use what came behind
  // them: what has arrived and isn't among them was lost there, since it was of another time, say.
  void gap(std::uint64_t session, replication::Index last);
  void clear();

 private:
  struct Queued {
    Item item;
    std::uint64_t bytes;
  };
  bool known(const Item& item, Clock::time_point now) const;

  replication::Member to_;
  std::uint64_t of_ = 0;  // the node's session
  std::uint64_t session_ = 0;
  std::deque<Queued> items_;
  bool busy_ = false;
  // Sent, or to be: commands without a gap from one up to another (0: none), and bytes of a
  // transfer.
  replication::Index from_ = 0, through_ = 0;
  std::uint64_t transfer_ = 0, begin_ = 0, offset_ = 0;
  replication::Index under_way_ = 0;  // the last command of the batch
  // When commands up to one had arrived, ascending.
  std::deque<std::pair<replication::Index, Clock::time_point>> arrivals_;
  Clock::time_point arrived_{};  // the last batch
};

// Of a message to a joiner or backup; 0 for others.
std::uint64_t session_of(const replication::Body& body);

}  // namespace convoy::server::host
