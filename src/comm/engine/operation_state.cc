#include "comm/engine/operation_state.h"

#include <algorithm>

namespace convoy::comm {
namespace {

void collect_missing(const OperationState& op, const Suspension& suspension,
                     std::vector<int>& receiving, std::vector<int>& sending) {
  for (const Ticket& ticket : suspension.awaiting) {
    if (!ticket.pending()) continue;
    auto& list = ticket.sending() ? sending : receiving;
    const int peer = op.medium.transport->world_rank(ticket.peer());
    if (std::find(list.begin(), list.end(), peer) == list.end()) list.push_back(peer);
  }
  if (suspension.work != nullptr) {
    std::vector<int> ranks;
    suspension.work->missing(ranks);
    for (int rank : ranks) receiving.push_back(op.medium.transport->world_rank(rank));
  }
  for (const Branch& branch : suspension.branches)
    collect_missing(op, branch.suspension, receiving, sending);
}

bool advance_task(Suspension& suspension, const Task& task);

// Looks at everything that a task waits for; true if it can go on. Throws what one of them throws.
bool look(Suspension& suspension, bool& moved) {
  bool ready = suspension.counter == nullptr || *suspension.counter >= suspension.at_least;
  for (Ticket& ticket : suspension.awaiting) {
    if (!ticket.pending()) continue;
    if (ticket.poll())
      moved = true;
    else
      ready = false;
  }
  if (suspension.work != nullptr) {
    moved = suspension.work->advance() || moved;
    ready = ready && suspension.work->done();
  }
  for (Branch& branch : suspension.branches) {
    if (branch.task.done()) continue;
    moved = advance_task(branch.suspension, branch.task) || moved;
    if (!branch.task.done())
      ready = false;
    else if (branch.task.error())
      std::rethrow_exception(branch.task.error());
  }
  return ready;
}

// Runs a suspended task as far as it gets; true if anything moved. What it awaits throws there.
bool advance_task(Suspension& suspension, const Task& task) {
  bool moved = false;
  while (!task.done()) {
    try {
      if (!look(suspension, moved)) return moved;
    } catch (...) {
      suspension.error = std::current_exception();
    }
    moved = true;
    suspension.resume.resume();
  }
  suspension = {};
  return moved;
}

}  // namespace

const OperationState& whose_turn(const OperationState& op) {
  const OperationState* first = &op;
  while (first->behind) first = first->behind.get();
  return *first;
}

std::vector<int> missing_peers(const OperationState& op) {
  std::vector<int> receiving, sending;
  collect_missing(op, op.suspension, receiving, sending);
  return receiving.empty() ? sending : receiving;
}

bool advance(OperationState& op) { return advance_task(op.suspension, op.task); }

}  // namespace convoy::comm
