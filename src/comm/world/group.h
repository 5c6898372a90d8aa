// The ranks that found each other: what a World, or whoever does without one, is built on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/engine/engine.h"
#include "convoy/comm/communicator.h"

namespace convoy::comm {

struct Group {
  std::shared_ptr<Engine> engine;
  Communicator communicator;         // of all ranks; CommunicatorInternals::locate is still to do
  std::vector<std::string> hosts;    // by rank
  std::vector<std::string> cores;    // by rank, those that it may run on, see format_cores
  std::vector<std::string> remarks;  // by rank, what each had to say
};

// The engine of this rank and the communicator of all ranks of the transport. Collective: ranks
// tell each other their hosts, their cores and a remark.
Group create_group(std::shared_ptr<Transport> transport, const Engine::Options& options,
                   const std::string& remark = "");

}  // namespace convoy::comm
