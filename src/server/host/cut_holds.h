// Cuts that are asked for, and the pushes that wait for them.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/clock.h"
#include "server/replication/types.h"
#include "server/service/shard_calls.h"
#include "server/state/shard_data.h"

namespace convoy::server::host {

using Answer = std::function<void(calls::Answered)>;

// A push as its first bytes tell; nothing for other commands.
struct PushHead {
  std::uint64_t client = 0;
  std::uint64_t sequence = 0;
};
std::optional<PushHead> push_head(std::span<const std::byte> command);

// A cut is to have certain pushes as the last ones of their clients, so later ones of these clients
// wait until the cut has its place in the log, or its time is over. Threads: one at a time.
class CutHolds {
 public:
  struct Cut {
    calls::CutRequest request;
    Answer answer;
    Clock::time_point until;
  };
  struct Waiting {
    replication::Command command;
    Answer answer;
  };
  struct Decided {
    std::vector<Cut> make;                               // now
    std::vector<std::pair<Answer, std::string>> refuse;  // with why
    std::vector<Waiting> go_on;                          // pushes that wait for nothing any more
  };

  bool empty() const { return cuts_.empty(); }
  std::size_t size() const { return cuts_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  std::uint64_t waiting_bytes() const { return waiting_bytes_; }

  void add(Cut cut) { cuts_.push_back(std::move(cut)); }
  // Keeps the push if it has to wait; else it is as it was.
  bool hold(const PushHead& push, Waiting& waiting);
  // What is to be done, given how far clients are.
  Decided decide(Clock::time_point now, const std::map<std::uint64_t, std::uint64_t>& sequences);
  // All of it ends, since this node isn't primary any more.
  Decided end(const std::string& why);

 private:
  bool holds(const PushHead& push) const;
  void release(Decided& decided);

  std::list<Cut> cuts_;
  std::list<std::pair<PushHead, Waiting>> waiting_;
  std::uint64_t waiting_bytes_ = 0;
};

}  // namespace convoy::server::host
