// Requests to stop that come while a training is set up.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "convoy/comm/communicator.h"

namespace convoy::train {

// Opening data may take minutes, in which nobody asks whether to stop, and nothing has to be saved.
// A rank that ended by itself then would leave others waiting for it that are set up already and
// don't end. So ranks tell each other, in threads of their own, and end together.
class SetUpWatch {
 public:
  // Collective. From now on `asked` (empty: never) is called ten times a second. Once it says yes
  // on any rank, `leave` is called on every rank: it should end the process. Both are called in a
  // thread of this object's own. Without `leave`, on all ranks alike, and where MPI lets only one
  // thread communicate, nothing is done: the request waits for the first update.
  SetUpWatch(const comm::Communicator& communicator, std::function<bool()> asked,
             std::function<void()> leave);
  // Without finish(), as while an exception is on its way, the watch is over on all ranks, and
  // `leave` is not called.
  ~SetUpWatch();
  SetUpWatch(const SetUpWatch&) = delete;

  // Ends the watch. Returns when every rank has called it, or when `leave` has returned on this
  // one. A request that no rank has seen by then is left to the first update on all ranks.
  // Collective.
  void finish();

 private:
  enum class State { watching, ready, giving_up };

  void watch();
  void end(State state);

  comm::Communicator communicator_;
  std::function<bool()> asked_;
  std::function<void()> leave_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::watching;
  std::exception_ptr failure_;  // of the thread
  std::thread thread_;
};

}  // namespace convoy::train
