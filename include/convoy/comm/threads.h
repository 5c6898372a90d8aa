// The transport between ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "convoy/comm/transport.h"

namespace convoy::comm {

// Gives one transport for each of `ranks` ranks, connected with each other; each is used by one
// thread (or engine) only. Messages are copied when they are sent, or straight into the receive
// that waits for them.
std::vector<std::unique_ptr<Transport>> thread_transports(int ranks);

}  // namespace convoy::comm
