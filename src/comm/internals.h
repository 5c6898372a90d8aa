// What benchmarks and tests may do with a communicator beyond its contract.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/collectives/allreduce/choice.h"
#include "comm/engine/engine.h"
#include "comm/shared_memory/locality.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {

struct CommunicatorInternals {
  static const std::shared_ptr<Engine>& engine(const Communicator& c) { return c.engine_; }
  static const std::shared_ptr<Transport>& transport(const Communicator& c) { return c.transport_; }

  static const Locality& locality(const Communicator& c) { return *c.locality_; }
  static Abilities abilities(const Communicator& c);
  // What the selection says for a buffer of so many bytes.
  static const AllreduceChoice& choose(const Communicator& c, std::size_t bytes);

  // Whether reductions are to be the same in any order.
  static bool reproducible(const Communicator& c);

  // A reduction or a barrier among ranks of one host that bypasses the engine while nothing else is
  // in flight; false where it has to be an operation like others.
  static bool reduce_at_once(const Communicator& c, Buffer data, ReduceOp op,
                             const AllreduceChoice& choice, Match match);
  static bool meet_at_once(const Communicator& c, Match match);

  // Every rank's text, for Convoy's own purposes: as Communicator::gather_text, by a call of this
  // kind, and with a match that may be reserved.
  static std::vector<std::string> gather(const Communicator& c, Kind kind, std::string_view text,
                                         Match match);

  // Finds out who is on which host and sets up what they share; collective. `hosts` are the ranks'.
  static void locate(Communicator& c, const std::vector<std::string>& hosts);

  // An allreduce by this algorithm, whatever the selection says; the same on every rank. Throws
  // UsageError when the group can't use it.
  static Operation start_allreduce(const Communicator& c, Buffer data, ReduceOp op,
                                   const AllreduceChoice& choice, Match match = {});
  static void allreduce(const Communicator& c, Buffer data, ReduceOp op,
                        const AllreduceChoice& choice, Match match = {});
  // The same of several contributions of each rank.
  static Operation start_allreduce_of_several(const Communicator& c,
                                              std::span<const Buffer> contributions, ReduceOp op,
                                              const AllreduceChoice& choice, Match match = {});
};

}  // namespace convoy::comm
