// Groups of portions, which a replica of a batch optimization asks the coordinator for.
#include "server/service/portion_calls.h"

#include "convoy/base/error.h"
#include "server/client/core.h"

namespace convoy::server {

PortionLease BatchClient::lease(const EvaluationId& evaluation, std::span<const PortionGroup> held,
                                std::span<const FinishedPortions> finished, bool at_once) {
  return core_.lease_portions(evaluation, held, finished, at_once);
}

namespace client {

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
