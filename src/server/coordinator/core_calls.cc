// What everybody asks a coordinator.
#include <algorithm>
#include <string>
#include <utility>

#include "convoy/base/error.h"
#include "server/coordinator/core.h"
#include "server/coordinator/core_state.h"
#include "server/service/portion_calls.h"

namespace convoy::server::coordinator {

using calls::JobState;

Effects Core::call(Time now, CallId call, std::string_view method,
                   const transport::Message& request) {
  at(now);
  try {
    dispatch(call, method, request);
  } catch (const UsageError& error) {  // nothing was changed
    effects_.emplace_back(AnswerCall{call, {}, error.what()});
  }
  return done();
}

void Core::dispatch(CallId call, std::string_view method, const transport::Message& request) {
  using namespace calls;
  if (method == kBeat) return on_beat(call, request);
  if (method == kLease) return on_lease(call, request);
  if (method == kPortions) return on_portions(call, request);
  if (method == kWatch) return on_watch(call, request);
  if (method == kBeginFrom) return on_begin_from(call, request);
  if (method == kAuthority) return on_authority(call, request);
  if (method == kJoin) return on_join(call, request);
  if (method == kLeave) return on_leave(call, request);
  if (method == kServer) return on_server(call, request);
  if (method == kDescribe) return on_describe(call, request);
  if (method == kInitialized) return on_initialized(call, request);
  if (method == kMakeCut) return on_make_cut(call, request);
  if (method == kDropCut) return on_drop_cut(call, request);
  if (method == kEnd) return on_end(call, request);
  const bool known = method == kJob || method == kProgress || method == kStatus;
  if (!known) throw UsageError("a coordinator has no method '" + std::string(method) + "'");
  decode_nothing(request);
  // What these say may only be what is stored.
  if (method == kJob) return reply(call, calls::encode(state()));
  if (method == kProgress) return reply(call, calls::encode(progress()));
  reply_now(call, encode_text(status_json(facts())));
}

JobState Core::state() const {
  JobState state;
  state.id = job_.id;
  state.plan = job_.plan;
  state.description = description_;
  state.initialized = state_.initialized;
  state.ended = state_.ended;
  for (std::uint64_t number = 1; number <= plan().servers; ++number) {
    const auto found = servers_.find(number);
    state.servers.push_back(
        {number, found == servers_.end() ? std::string() : found->second.hello.address});
  }
  for (const ShardState& shard : shards_) {
    if (shard.configuration.epoch != 0) state.configurations.push_back(shard.configuration);
  }
  return state;
}

JobProgress Core::progress() const {
  JobProgress progress;
  if (ledger_) {
    ledger_->view().fill({}, progress);
    progress.twice = ledger_->twice();
    progress.redone = ledger_->redone();
  }
  progress.ended = state_.ended;
  progress.replicas = live_replicas();
  progress.reported = reported_;
  return progress;
}

void Core::on_describe(CallId call, const transport::Message& request) {
  JobDescription description = calls::decode_description(request);
  if (description_) {
    const std::string differs = difference(*description_, description);
    if (!differs.empty()) {
      throw UsageError(
          "the job was described with another network (here: the job's, there: what "
          "was said now): " +
          differs);
    }
    return reply(call, calls::encode_nothing());
  }
  place(description.vectors, plan().shards);  // it has to be possible
  Bytes bytes = encode(description);
  if (bytes.size() > options_.largest_value) {
    throw UsageError("the description of the network has " + std::to_string(bytes.size()) +
                     " bytes, the coordinator's store takes " +
                     std::to_string(options_.largest_value) +
                     " at once: keep the job in a folder, or use fewer vectors");
  }
  Ledger ledger(plan(), description.epoch_samples);
  batch_ = new_batch(ledger);
  ledger_.emplace(std::move(ledger));
  description_ = std::move(description);
  put(kDescriptionKey, std::move(bytes), Survives::power);
  put(kLedgerKey, ledger_->encode(), Survives::power);
  tell(Tell::Level::info, "the job is described: " + std::to_string(description_->vectors.size()) +
                              " vectors, " + std::to_string(description_->epoch_samples) +
                              " samples in an epoch");
  reply(call, calls::encode_nothing());
}

void Core::on_initialized(CallId call, const transport::Message& request) {
  calls::decode_nothing(request);
  if (!description_) throw UsageError("the job has to be described before it has values");
  if (!state_.initialized) {
    state_.initialized = true;
    put_state(Survives::power);
    tell(Tell::Level::info, "all parameters have values");
  }
  reply(call, calls::encode_nothing());
}

void Core::on_server(CallId call, const transport::Message& request) {
  const calls::ServerHello hello = calls::decode_server_hello(request);
  if (hello.server > plan().servers) {
    throw UsageError("server " + std::to_string(hello.server) + ": the job has servers 1 to " +
                     std::to_string(plan().servers));
  }
  if (hello.address.empty()) throw UsageError("a server that says no address");
  ServerState& server = servers_[hello.server];
  server.heard = now_;
  if (server.hello.address != hello.address || server.hello.incarnation != hello.incarnation) {
    server.hello = hello;
    put_servers();
    tell(Tell::Level::info, "server " + std::to_string(hello.server) + " is at " + hello.address);
  }
  reply(call, calls::encode(state()));
}

void Core::on_authority(CallId call, const transport::Message& request) {
  const auto messages = calls::decode_replication(request);
  if (messages.empty()) return reply_now(call, calls::encode(messages));
  const std::uint64_t node = messages.front().from.node;
  for (const auto& message : messages) {
    if (message.from.node != node || message.shard >= plan().shards) {
      throw UsageError("messages of several servers, or of a shard that isn't there");
    }
    const auto servers = servers_of(message.shard, plan());
    if (std::find(servers.begin(), servers.end(), node) == servers.end()) {
      throw UsageError("server " + std::to_string(node) + " has no part in shard " +
                       std::to_string(message.shard));
    }
  }
  ServerState& server = servers_[node];
  server.heard = now_;
  for (const auto& message : messages) carry_out(authority_->receive(now_, message));
  std::vector<replication::Message> mail;
  for (auto& [shard, message] : server.mail) mail.push_back(std::move(message));
  server.mail.clear();
  reply_now(call, calls::encode(mail));
}

void Core::carry_out(replication::AuthorityEffects effects) {
  for (auto& effect : effects) {
    if (auto* send = std::get_if<replication::Send>(&effect)) {
      const std::uint64_t node = send->message.to.node;
      // The newest says all that those before said.
      if (node >= 1 && node <= plan().servers) {
        servers_[node].mail[send->message.shard] = std::move(send->message);
      }
    } else if (const auto* read = std::get_if<replication::ReadStore>(&effect)) {
      effects_.emplace_back(ReadConfiguration{read->shard});
    } else if (auto* set = std::get_if<replication::SetStore>(&effect)) {
      effects_.emplace_back(SetConfiguration{set->next});
    }
  }
}

Effects Core::configuration(Time now, std::uint32_t number,
                            const replication::ConfigurationStore::Answer& answer) {
  at(now);
  carry_out(authority_->stored(now_, number, answer));
  if (number < shards_.size() && answer.reached &&
      answer.newest.epoch > shards_[number].configuration.epoch) {
    shards_[number].configuration = answer.newest;
    const auto& newest = answer.newest;
    tell(Tell::Level::info,
         "shard " + std::to_string(number) + ": server " + std::to_string(newest.primary.node) +
             " is primary, " +
             (newest.backup ? "server " + std::to_string(newest.backup.node) + " its backup"
                            : std::string("alone")) +
             " (epoch " + std::to_string(newest.epoch) + ")");
  }
  return done();
}

void Core::on_drop_cut(CallId call, const transport::Message& request) {
  const calls::DropCutRequest drop_request = calls::decode_drop_cut(request);
  const auto found = cuts_.find(drop_request.cut);
  if (found != cuts_.end() && found->second.phase == CutEntry::Phase::made) {
    if (found->second.client != drop_request.client) {
      throw UsageError("cut " + std::to_string(drop_request.cut) + " is another client's");
    }
    drop(drop_request.cut);
  }
  reply(call, calls::encode_nothing());
}

void Core::end(const std::string& why) {
  if (!state_.ended.empty()) return;
  state_.ended = why.empty() ? "it was ended" : why;
  ended_at_ = now_;
  put_state(Survives::power);
  tell(Tell::Level::info, "the job is over: " + state_.ended);
}

void Core::on_end(CallId call, const transport::Message& request) {
  const calls::EndRequest request_end = calls::decode_end(request);
  ClientState& client = require(request_end.client);
  if (client.entry.role == ClientRole::replica) {
    throw UsageError("a replica can't end the job; an evaluator does");
  }
  end(request_end.why);
  client.knows_end = true;
  reply(call, calls::encode_nothing());
}

}  // namespace convoy::server::coordinator
