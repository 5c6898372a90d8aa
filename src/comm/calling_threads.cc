#include "comm/calling_threads.h"

#include "comm/internals.h"
#include "comm/transports/mpi.h"

namespace convoy::comm {

bool any_thread_may_call(const Communicator& communicator) {
  // Where the engine has a thread, another one is no worse.
  return CommunicatorInternals::engine(communicator)->options().progress_thread ||
         any_thread_may_call(*CommunicatorInternals::transport(communicator));
}

}  // namespace convoy::comm
