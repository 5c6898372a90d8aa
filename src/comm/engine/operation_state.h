// An operation in flight as the engine has it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/engine/call.h"
#include "comm/engine/io.h"
#include "comm/engine/stall_detector.h"
#include "comm/engine/task.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/comm/transport.h"

namespace convoy::comm {

class Engine;
struct Locality;

// Another rank has given up an operation that this one is in the middle of.
class Withdrawn : public Failure {
 public:
  using Failure::Failure;
};

// What the ranks of a group move data through.
struct Medium {
  std::shared_ptr<Transport> transport;
  std::shared_ptr<const Locality> locality;  // null where only messages are used

  Medium(std::shared_ptr<Transport> transport,  // NOLINT: implicit
         std::shared_ptr<const Locality> locality = nullptr)
      : transport(std::move(transport)), locality(std::move(locality)) {}
};

// Whoever drives an operation keeps alive what it touches, for as long as it does: this state does
// so for an operation in flight; a call that blocks has its communicator for what it does before
// the engine has the operation. So what works inside an operation refers to engine, transport,
// locality and node by plain references, whatever becomes of the communicator that it was started
// from.
//
// Everything but `done` and `error` (valid once done) is touched under the engine's lock only.
struct OperationState {
  OperationState(std::shared_ptr<Engine> engine, Medium medium, Call call)
      : engine(std::move(engine)),
        medium(std::move(medium)),
        call(call),
        io(*this->medium.transport, call.match) {}

  std::shared_ptr<Engine> engine;
  Medium medium;
  Call call;
  Io io;
  Suspension suspension;
  Task task;  // after all that its frame refers to: destroyed before them
  Clock::time_point started = Clock::now();
  // Whether the messages of a later operation of the same match could be taken for its own.
  bool in_turn = false;
  // Until its turn comes: the operation of the same match before it, and what it will do.
  std::shared_ptr<OperationState> behind;
  std::function<Task(Io&)> body;
  std::optional<StallTimer> timer;  // since somebody has looked whether it is done
  std::atomic<bool> done = false;
  std::exception_ptr error;
};

// Runs a suspended operation as far as it gets; true if anything moved. REQUIRES: not done.
bool advance(OperationState& op);

// The operation that this one waits for until its turn comes; itself if that has come.
const OperationState& whose_turn(const OperationState& op);

// World ranks from which an operation lacks a message, or which have not taken one.
std::vector<int> missing_peers(const OperationState& op);

}  // namespace convoy::comm
