// Clients of a coordinator: who they are, and what they have.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/core.h"
#include "server/coordinator/core_state.h"

namespace convoy::server::coordinator {

using calls::LeaseAnswer;
using replication::milliseconds;

namespace {

constexpr std::uint64_t kWait = 100;  // milliseconds, until something may have changed
constexpr std::uint64_t kWaitInRounds = 10;
constexpr std::size_t kLeasedAhead = 2;                          // portions of a replica at once
constexpr std::uint64_t kMostReported = std::uint64_t{1} << 48;  // that one beat can be true of

void add_number(double& sum, double value) {
  if (std::isfinite(value)) sum += value;  // one that isn't would hide all others
}

}  // namespace

Core::ClientState* Core::known(std::uint64_t id) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || leaving_.contains(found->second.entry.group)) return nullptr;
  found->second.heard = now_;
  return &found->second;
}

Core::ClientState& Core::require(std::uint64_t id) {
  ClientState* client = known(id);
  if (client == nullptr) {
    throw UsageError("client " + std::to_string(id) + " is not known: it has to join again");
  }
  return *client;
}

std::uint32_t Core::live_replicas() const {
  return static_cast<std::uint32_t>(std::count_if(
      groups_.begin(), groups_.end(),
      [](const auto& each) { return each.second.complete() && !each.second.leaving; }));
}

void Core::put_group(std::uint64_t id) {
  const GroupState& group = groups_.at(id);
  put(group_key(id), encode(GroupEntry{group.members, group.leaving != nullptr,
                                       ledger_->has(id) ? ledger_->encode(id) : Bytes()}));
}

void Core::on_join(CallId call, const transport::Message& request) {
  const calls::ClientHello hello = calls::decode_client_hello(request);
  // It has joined already, and the answer got lost.
  for (const auto& [id, client] : clients_) {
    if (hello.nonce == 0) break;
    if (client.entry.nonce != hello.nonce || client.entry.role != hello.role ||
        client.entry.member != hello.member || known(id) == nullptr) {
      continue;
    }
    return reply(call, calls::encode(calls::ClientWelcome{id, plan().client_lease_ms}));
  }
  if (clients_.size() >= kMaxClients) {
    throw UsageError("the job has " + std::to_string(clients_.size()) +
                     " clients, as many as it can");
  }
  const bool replica = hello.role == ClientRole::replica;
  GroupState* group = nullptr;
  if (replica) {
    if (!description_) throw UsageError("the job has not been described yet: join later");
    if (!hello.description) throw UsageError("a replica has to say what its network is");
    const std::string differs = difference(*description_, *hello.description);
    if (!differs.empty()) {
      throw UsageError("the replica trains another network (here: the job's, there: its own): " +
                       differs);
    }
    if (hello.member > 0) {
      const auto found = groups_.find(hello.group);
      if (found == groups_.end() || found->second.leaving ||
          found->second.members != hello.members) {
        throw UsageError("client " + std::to_string(hello.group) + " is no replica of " +
                         std::to_string(hello.members) + " processes that is here");
      }
      group = &found->second;
    }
  }
  const std::uint64_t id = state_.next_client++;
  ClientState client;
  client.entry = {hello.name, hello.role, 0, hello.member, false, hello.nonce};
  client.heard = now_;
  client.rate = Rate(now_);
  if (replica) {
    client.entry.group = group != nullptr ? hello.group : id;
    if (group == nullptr) {
      group = &groups_[id];
      group->members = hello.members;
    }
    // One that was here before has joined again, since its answer got lost.
    const auto [place, is_new] = group->clients.try_emplace(hello.member, id);
    if (!is_new) {
      clients_.erase(place->second);
      remove(client_key(place->second));
      place->second = id;
    }
    // In rounds others wait for its shares: not for those of one that isn't whole yet.
    if (group->complete() && !ledger_->has(client.entry.group)) {
      ledger_->enter(client.entry.group);
      put(kLedgerKey, ledger_->encode());
    }
    put_group(client.entry.group);
  }
  put(client_key(id), encode(client.entry));
  put_state();
  clients_.emplace(id, std::move(client));
  tell(Tell::Level::info, "client " + std::to_string(id) + " ('" + hello.name + "') has joined");
  reply(call, calls::encode(calls::ClientWelcome{id, plan().client_lease_ms}));
}

void Core::add(ClientState& client, const calls::Beat& beat) {
  const ReplicaReport& report = beat.report;
  if (report.samples > kMostReported || report.steps > kMostReported) return;
  // Its own count is of all bad records; the job's is of all clients'.
  reported_.steps += report.steps;
  reported_.samples += report.samples;
  reported_.skipped += report.skipped;
  add_number(reported_.loss_sum, report.loss_sum);
  add_number(reported_.weight, report.weight);
  add_number(reported_.compute_s, report.compute_s);
  add_number(reported_.fetch_wait_s, report.fetch_wait_s);
  add_number(reported_.push_wait_s, report.push_wait_s);
  add_number(reported_.data_wait_s, report.data_wait_s);
  client.steps += report.steps;
  client.samples += report.samples;
  client.rate.add(now_, report.samples);
  put(kReportedKey, encode(reported_));
}

void Core::on_beat(CallId call, const transport::Message& request) {
  const calls::Beat beat = calls::decode_beat(request);
  ClientState* client = known(beat.client);
  if (client != nullptr && client->entry.role == ClientRole::evaluator) refuse_failed(beat.client);
  const bool is_new = beat.number == 0 || (client != nullptr && beat.number > client->last_report);
  if (client != nullptr && is_new) {
    client->last_report = beat.number;
    const ReplicaReport& report = beat.report;
    const bool empty = report.steps == 0 && report.samples == 0 && report.skipped == 0 &&
                       report.compute_s == 0 && report.fetch_wait_s == 0 &&
                       report.push_wait_s == 0 && report.data_wait_s == 0;
    if (!empty) add(*client, beat);
  }
  if (client != nullptr) client->knows_end = !state_.ended.empty();
  reply(call, calls::encode(calls::BeatAnswer{client != nullptr, state_.ended}));
}

void Core::on_lease(CallId call, const transport::Message& request) {
  const calls::LeaseRequest lease_request = calls::decode_lease_request(request);
  ClientState* client = known(lease_request.client);
  if (client == nullptr) {
    return reply(call, calls::encode(LeaseAnswer{LeaseAnswer::Kind::unknown_client, {}, 0, ""}));
  }
  if (client->entry.role != ClientRole::replica) {
    throw UsageError("client " + std::to_string(lease_request.client) +
                     " is no replica: there are no samples for it");
  }
  if (options_.batch) {
    throw UsageError("the job is a batch optimization: replicas ask it for portions, not samples");
  }
  client->knows_end = !state_.ended.empty();
  reply(call, calls::encode(lease(client->entry.group, lease_request)));
}

bool Core::warm() {
  const bool asked = plan().warm_samples != 0 || plan().warm_seconds > 0;
  if (!asked || state_.warm_over) return false;
  if (warm_began_) {
    state_.warm_used += now_ - *warm_began_;
    warm_began_ = now_;
  }
  const bool enough = plan().warm_samples != 0 && ledger_->samples() >= plan().warm_samples;
  const bool long_enough =
      plan().warm_seconds > 0 && static_cast<double>(state_.warm_used) >= plan().warm_seconds * 1e6;
  if (!enough && !long_enough) return true;
  state_.warm_over = true;
  put_state();
  tell(Tell::Level::info, "the warm start is over: all replicas train");
  return false;
}

// Why a replica gets nothing now, if it doesn't.
std::string Core::why_incomplete(const GroupState& group) const {
  if (!state_.initialized) return "the parameters have no values yet";
  if (group.complete()) return {};
  return std::to_string(group.clients.size()) + " of this replica's " +
         std::to_string(group.members) + " processes are here";
}

std::string Core::why_wait(const GroupState& group) {
  if (std::string why = why_incomplete(group); !why.empty()) return why;
  // In rounds all begin together: shards would go on without one that they don't know yet.
  if (plan().staleness_bound == 0 && !state_.began) {
    const auto here = std::count_if(groups_.begin(), groups_.end(), [](const auto& each) {
      return each.second.complete() && !each.second.leaving && each.second.asked;
    });
    if (here < static_cast<std::ptrdiff_t>(plan().replicas)) {
      return std::to_string(here) + " of " + std::to_string(plan().replicas) + " replicas are here";
    }
  }
  return {};
}

LeaseAnswer Core::lease(std::uint64_t id, const calls::LeaseRequest& request) {
  GroupState& group = groups_.at(id);
  group.asked = true;
  bool changed = false;
  for (const std::uint64_t number : request.finished) {
    changed = ledger_->finished(id, number) || changed;
  }
  // Stored even when the answer is to wait. A replica tells once what is finished, and works on
  // what it was given: a power cut may not take that.
  const auto store = [&] {
    put(kLedgerKey, ledger_->encode(), Survives::power);
    put_group(id);
  };
  if (changed) store();
  if (!state_.ended.empty()) return {LeaseAnswer::Kind::finished, {}, 0, state_.ended};
  const std::uint64_t wait = plan().staleness_bound == 0 ? kWaitInRounds : kWait;
  if (const std::string why = why_wait(group); !why.empty()) {
    return {LeaseAnswer::Kind::wait, {}, kWait, why};
  }
  std::size_t ahead = kLeasedAhead;
  std::uint64_t most = UINT64_MAX;
  if (warm()) {
    const auto alone = groups_.find(warm_group_);
    if (alone == groups_.end() || alone->second.leaving) warm_group_ = id;
    if (warm_group_ != id) {
      return {LeaseAnswer::Kind::wait,
              {},
              wait,
              "warm start: replica " + std::to_string(warm_group_) + " trains alone"};
    }
    if (!warm_began_) warm_began_ = now_;
    put_state();  // how long it has been
    ahead = 1;
    if (plan().warm_samples != 0) {
      const std::uint64_t left = plan().warm_samples - ledger_->samples();
      most = (left + plan().batch - 1) / plan().batch * plan().batch;
    }
  }
  const Ledger::Handed handed = ledger_->hand_out(id, request.last, ahead, most, request.round);
  switch (handed.kind) {
    case Ledger::Handed::Kind::finished:
      // What those had who are leaving may come back.
      if (!leaving_.empty()) {
        return {LeaseAnswer::Kind::wait, {}, wait, "a replica leaves, which may have samples"};
      }
      return {LeaseAnswer::Kind::finished, {}, 0, "all samples are done"};
    case Ledger::Handed::Kind::wait:
      return {LeaseAnswer::Kind::wait,
              {},
              wait,
              ledger_->all_handed() ? "the last samples are with replicas that have begun them"
                                    : "others come first"};
    case Ledger::Handed::Kind::portion:
      break;
  }
  if (handed.changed) {
    store();
    if (cut_) cut_->view.held.push_back({id, handed.portion});
    if (!state_.began) {
      state_.began = true;
      put_state();
    }
  }
  return {LeaseAnswer::Kind::portion, handed.portion, 0, ""};
}

void Core::on_leave(CallId call, const transport::Message& request) {
  const std::uint64_t id = calls::decode_client_request(request).client;
  ClientState* client = known(id);
  if (client != nullptr && client->entry.role != ClientRole::replica) {
    lose(id);
  } else if (client != nullptr && !client->entry.departed) {
    client->entry.departed = true;
    put(client_key(id), encode(client->entry));
    const GroupState& group = groups_.at(client->entry.group);
    const bool all = std::all_of(group.clients.begin(), group.clients.end(), [&](const auto& each) {
      return clients_.at(each.second).entry.departed;
    });
    if (all) begin_leaving(client->entry.group);
  }
  reply(call, calls::encode_nothing());
}

}  // namespace convoy::server::coordinator
