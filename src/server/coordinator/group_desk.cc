#include "server/coordinator/group_desk.h"

#include <algorithm>

namespace convoy::server::coordinator {

using calls::PortionAnswer;

void GroupDesk::begin(Time now, const EvaluationId& evaluation) {
  journal_.over(now);
  ledger_.begin(evaluation);
}

void GroupDesk::enter(std::uint64_t replica, const std::string& name) {
  ledger_.enter(replica);
  journal_.name(replica, name);
}

void GroupDesk::leave(Time now, std::uint64_t replica) {
  ledger_.leave(replica);
  journal_.left(now, replica);
  const auto found = waiting_.find(replica);
  if (found == waiting_.end()) return;
  PortionAnswer unknown;
  unknown.kind = PortionAnswer::Kind::unknown_client;
  given_up_.emplace_back(found->second.call, unknown);
  waiting_.erase(found);
}

void GroupDesk::ask(Time now, CallId call, const calls::PortionRequest& request) {
  bytes_ += calls::encode(request).size();
  for (const auto& [group, losses] : request.finished) {
    const auto taken = ledger_.finished(now, request.client, request.evaluation, group, losses);
    if (taken == GroupLedger::Taken::told) continue;
    journal_.done(now, request.client, request.evaluation, group,
                  taken == GroupLedger::Taken::counted);
  }
  Waiting waiting{call, request, now, 0};
  const auto [place, is_new] = waiting_.try_emplace(request.client, waiting);
  if (is_new) return;
  PortionAnswer again;
  again.evaluation = ledger_.evaluation();
  again.portions = portions_;
  given_up_.emplace_back(place->second.call, again);
  place->second = std::move(waiting);
}

bool GroupDesk::answer(Time now, Waiting& waiting, PortionAnswer& answer) {
  const calls::PortionRequest& request = waiting.request;
  const bool same = ledger_.open() && request.evaluation == ledger_.evaluation();
  const std::vector<PortionGroup> none;
  answer.evaluation = ledger_.evaluation();
  answer.portions = portions_;
  const std::uint64_t again = ledger_.counts().again;
  const auto handed = ledger_.lease(now, request.client, same ? request.held : none);
  answer.unused = same ? handed.unused : request.held;
  for (const PortionGroup& each : handed.unused) journal_.not_needed(now, request.client, each);
  // Those that a coordinator before this one gave it come first.
  for (const PortionGroup& each : ledger_.held(request.client)) {
    const bool newest = handed.changed && each == handed.group;
    journal_.given(now, request.client, ledger_.evaluation(), each, newest && handed.copy,
                   newest && ledger_.counts().again != again);
  }
  if (handed.kind == GroupLedger::Handed::Kind::group) {
    answer.kind = PortionAnswer::Kind::group;
    answer.group = handed.group;
    answer.copy = handed.copy;
    return true;
  }
  answer.kind = PortionAnswer::Kind::wait;
  waiting.again = std::min(handed.until, waiting.since + longest_);
  return request.at_once || !answer.unused.empty() || now >= waiting.since + longest_;
}

void GroupDesk::finish(Time now, const std::string& why) {
  journal_.over(now);
  for (const auto& [replica, waiting] : std::exchange(waiting_, {})) {
    PortionAnswer over;
    over.kind = PortionAnswer::Kind::finished;
    over.evaluation = ledger_.evaluation();
    over.portions = portions_;
    over.unused = waiting.request.held;
    over.why = why;
    given_up_.emplace_back(waiting.call, over);
  }
}

GroupDesk::Answers GroupDesk::answers(Time now) {
  Answers all = std::exchange(given_up_, {});
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    PortionAnswer said;
    if (answer(now, at->second, said)) {
      all.emplace_back(at->second.call, std::move(said));
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  }
  for (const auto& [call, said] : all) bytes_ += calls::encode(said).size();
  return all;
}

Time GroupDesk::due() const {
  Time next = GroupLedger::kNever;
  for (const auto& [replica, waiting] : waiting_) next = std::min(next, waiting.again);
  return next;
}

}  // namespace convoy::server::coordinator
