// What benchmarks and tests may do with a communicator beyond its contract.
#pragma once

#include <memory>

#include "comm/collectives/allreduce/choice.h"
#include "comm/engine.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {

struct CommunicatorInternals {
  static const std::shared_ptr<Engine>& engine(const Communicator& c) { return c.engine_; }
  static const std::shared_ptr<Transport>& transport(const Communicator& c) { return c.transport_; }

  static int nodes(const Communicator& c) { return c.nodes_; }

  // An allreduce by this algorithm, whatever the selection says; the same on every rank.
  static Operation start_allreduce(const Communicator& c, Buffer data, ReduceOp op,
                                   const AllreduceChoice& choice, Match match = {});
};

}  // namespace convoy::comm
