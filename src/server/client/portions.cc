// What replicas and evaluators of a batch optimization ask the coordinator for.
#include "server/service/portion_calls.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "convoy/base/error.h"
#include "server/client/core.h"
#include "server/coordinator/batch_record.h"

namespace convoy::server {

PortionLease BatchClient::lease(const EvaluationId& evaluation, std::span<const PortionGroup> held,
                                std::span<const FinishedPortions> finished, bool at_once) {
  return core_.lease_portions(evaluation, held, finished, at_once);
}

BatchProgress BatchClient::watch(std::uint64_t after, bool hold) {
  return core_.watch_batch(after, hold);
}

void BatchClient::let_go() { core_.let_go(); }

void BatchClient::begin_from(const optim::BatchState& state) { core_.begin_batch_from(state); }

namespace client {

BatchProgress Core::watch_batch(std::uint64_t after, bool hold) {
  using Hold = calls::WatchRequest::Hold;
  // An evaluator is known to its coordinator, which tells it at least how it ends.
  const std::uint64_t mine =
      !hold && options_.role == ClientRole::evaluator ? any_membership()->id : 0;
  const transport::Message message =
      hold ? ask_as_somebody(calls::kWatch,
                             [&](std::uint64_t id) {
                               return calls::encode(calls::WatchRequest{id, after, Hold::hold});
                             })
           : ask(calls::kWatch, calls::encode(calls::WatchRequest{mine, after, Hold::keep}));
  calls::WatchAnswer answer = calls::decode_watch_answer(message);
  BatchProgress progress = std::move(answer.progress);
  if (answer.start.empty()) return progress;
  coordinator::BatchStart start = coordinator::decode_batch_start(answer.start);
  progress.begun = start.begun;
  progress.state = std::move(start.state);
  progress.last = start.last;
  return progress;
}

void Core::let_go() {
  ask_as_somebody(calls::kWatch, [](std::uint64_t id) {
    return calls::encode(calls::WatchRequest{id, UINT64_MAX, calls::WatchRequest::Hold::let_go});
  });
}

void Core::begin_batch_from(const optim::BatchState& state) {
  coordinator::BatchStart start;
  start.begun = true;
  start.state = state;
  start.last.iteration = state.iteration;
  start.last.loss = state.loss;
  start.last.step = state.step;
  const optim::VectorName gradient = optim::gradient_of(state.weights);
  if (const auto square = state.products.find({gradient, gradient});
      square != state.products.end()) {
    start.last.gradient_norm = std::sqrt(square->second);
  }
  const Bytes bytes = coordinator::encode(start);
  ask_as_somebody(calls::kBeginFrom, [&](std::uint64_t id) {
    return calls::encode(calls::BatchFrom{id, bytes});
  });
}

PortionLease Core::lease_portions(const EvaluationId& evaluation,
                                  std::span<const PortionGroup> held,
                                  std::span<const FinishedPortions> finished, bool at_once) {
  using Kind = calls::PortionAnswer::Kind;
  const auto now = membership();
  if (!now) throw UsageError("portions are for those who have joined: join() first");
  check(now);
  calls::PortionRequest request;
  request.client = now->id;
  request.evaluation = evaluation;
  request.held.assign(held.begin(), held.end());
  for (const auto& [group, losses] : finished) request.finished.push_back({group, losses});
  request.at_once = at_once;
  calls::PortionAnswer answer =
      calls::decode_portion_answer(ask(calls::kPortions, calls::encode(request)));
  if (answer.kind == Kind::unknown_client) {
    now->heartbeat->found_lost();
    throw_lost("");
  }
  PortionLease lease;
  lease.kind = answer.kind == Kind::group      ? PortionLease::Kind::group
               : answer.kind == Kind::finished ? PortionLease::Kind::finished
                                               : PortionLease::Kind::wait;
  lease.evaluation = answer.evaluation;
  lease.portions = answer.portions;
  lease.group = answer.group;
  lease.copy = answer.copy;
  lease.unused = std::move(answer.unused);
  lease.why = std::move(answer.why);
  return lease;
}

}  // namespace client
}  // namespace convoy::server
