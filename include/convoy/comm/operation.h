// An operation in flight.
#pragma once

#include <memory>

namespace convoy::comm {

struct OperationState;

// This is a handle to a send, receive or collective that was started and may not be done yet. The
// operation is a state machine; waiters, the world's progress thread and every other call into the
// communicator advance it, one at a time.
//
// Threads: a handle belongs to one thread at a time. Different handles may be used by different
// threads. Lifetime: the buffers of the operation must stay valid until it is done; the destructor
// waits for it. While an exception unwinds the stack, it waits for a moment only: an operation that
// isn't done then is given up, and the world has failed, here (every later call throws Failure) and
// for all peers, whose calls name this rank and the operation.
class Operation {
 public:
  Operation();
  explicit Operation(std::shared_ptr<OperationState> state);
  Operation(Operation&&) noexcept;
  Operation& operator=(Operation&&);
  ~Operation();

  // Advances what is in flight once and says whether this operation is done. Never blocks. Throws
  // what wait() throws: who polls waits as well, from the first call on, of which up to a quarter
  // of the timeout, and 10 s, between two calls count.
  bool done();

  // Returns when the operation is done. Yields, then sleeps, while there is nothing to do. Throws
  // Failure when a peer has failed or left, when ranks disagree about the call, or when the world's
  // timeout passes; the message names the operation and the ranks that are missing from it. Time in
  // which this process is stopped (by SIGSTOP, a suspended job) doesn't count, but for a second.
  void wait();

  // False for a default-constructed or moved-from handle, and after wait() has returned.
  bool valid() const { return state_ != nullptr; }

 private:
  std::shared_ptr<OperationState> state_;
};

}  // namespace convoy::comm
