// Work that takes some ranks longer than others: waiting for it is no failure of a peer, however
// long it takes. Meant for set-up and files, not for every step. Collective.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "convoy/base/clock.h"
#include "convoy/comm/communicator.h"

namespace convoy::train {

// Runs `work` on one rank and hands its result to all. What it throws is thrown on every rank:
// UsageError as such, anything else as Failure. Where there are other ranks, it runs on a thread of
// its own, and may not communicate.
std::string on_rank(const comm::Communicator& communicator, int rank,
                    const std::function<std::string()>& work);
inline std::string on_rank_0(const comm::Communicator& communicator,
                             const std::function<std::string()>& work) {
  return on_rank(communicator, 0, work);
}

// Runs `work` on every rank, and returns when all are done; the rest as above. If ranks throw, all
// throw what the first of them does, named unless it is everybody's.
void on_every_rank(const comm::Communicator& communicator, const std::function<void()>& work);

// Compares the outcomes (outcome.h) of all ranks, and throws on every rank what the first one that
// failed has, as on_every_rank does; returns where none has failed. Collective.
void throw_first(const comm::Communicator& communicator, const std::string& outcome);

// This does the same where some ranks work on the thread that communicates: every rank has one
// object for the time of that work.
class Ticks {
 public:
  explicit Ticks(const comm::Communicator& communicator) : communicator_(communicator) {}
  // To be called by who works, often: tells the others now and then, who have to be in finish() or
  // to call this, too.
  void working();
  // Returns when no rank works any more. `busy` is for work on another thread: it waits for its end
  // for up to so long, and says whether it goes on.
  void finish(const std::function<bool(std::chrono::milliseconds patience)>& busy);

 private:
  bool anybody_works(bool this_rank);

  const comm::Communicator& communicator_;
  Clock::time_point last_ = Clock::now();
  std::array<std::int64_t, 1> ranks_{};
};

}  // namespace convoy::train
