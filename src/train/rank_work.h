// Work that takes some ranks longer than others: waiting for it is no failure of a peer, however
// long it takes. Meant for set-up and files, not for every step. Collective.
#pragma once

#include <functional>
#include <string>

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

}  // namespace convoy::train
