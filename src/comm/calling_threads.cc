#include "comm/calling_threads.h"

#include "comm/internals.h"

namespace convoy::comm {

bool any_thread_may_call(const Communicator& communicator) {
  // Where the engine has a thread, another one is no worse.
  return CommunicatorInternals::engine(communicator)->options().progress_thread ||
         CommunicatorInternals::transport(communicator)->any_thread_may_call();
}

}  // namespace convoy::comm
