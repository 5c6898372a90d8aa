// Which threads may communicate.
#pragma once

#include "convoy/comm/communicator.h"

namespace convoy::comm {

// Whether calls may come from any thread. Otherwise MPI knows less than that
// (MPI_THREAD_FUNNELED), and they have to come from the thread that initialized it. The same on
// every rank.
bool any_thread_may_call(const Communicator& communicator);

}  // namespace convoy::comm
