#include "server/coordinator/group_desk.h"

#include <algorithm>

namespace convoy::server::coordinator {

using calls::PortionAnswer;

void GroupDesk::leave(std::uint64_t replica) {
  ledger_.leave(replica);
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
    ledger_.finished(now, request.client, request.evaluation, group, losses);
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
  const auto handed = ledger_.lease(now, request.client, same ? request.held : none);
  answer.unused = same ? handed.unused : request.held;
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

void GroupDesk::finish(const std::string& why) {
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
