// A coordinator's core with shards, a store and a clock that a test drives.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "server/coordinator/configuration_keeper.h"
#include "server/coordinator/core.h"
#include "server/host/cut_holds.h"
#include "server/state/shard_state.h"

namespace convoy::server::coordinator::test {

using transport::Message;

inline JobPlan small_plan() {
  JobPlan plan;
  plan.name = "job";
  plan.shards = 2;
  plan.servers = 2;
  plan.backups = false;
  plan.replicas = 2;
  plan.batch = 4;
  plan.portion = 8;
  plan.epochs = 1;
  plan.client_lease_ms = 1000;
  plan.server_lease_ms = 1000;
  return plan;
}

inline JobDescription small_description(std::uint64_t samples = 64) {
  return {"model", {{"a", 4, std::nullopt}, {"b", 4, std::nullopt}}, samples, "data"};
}

// One shard, which applies what it is asked at once.
class FakeShard {
 public:
  FakeShard() {
    Definition definition;
    definition.slices = {{"a", 4, 0, 4, std::nullopt}};
    give(define_command(definition));
    const float zeros[4] = {};
    Writer writer;
    writer.values(Encoding::f32, zeros);
    const Bytes bytes = writer.take();
    Reader reader(bytes, "test");
    give(initialize_command({{0, 3, reader.values(), {}}}));  // after 3 updates
  }

  server::Reply give(const Bytes& command) {
    return decode_reply(state.apply(state.applied() + 1, command));
  }
  // A push that is held back for a cut gets no reply now: nothing.
  std::optional<server::Reply> push(std::uint64_t client, std::uint64_t sequence,
                                    std::uint64_t progress, std::vector<std::uint64_t> ids) {
    Push push;
    push.client = client;
    push.sequence = sequence;
    push.samples = ids.empty() ? 1 : ids.size();
    push.progress = progress;
    push.ids = std::move(ids);
    auto command = std::make_shared<const Bytes>(push_command(push));
    host::CutHolds::Waiting waiting{command, {}};
    if (holds.hold({client, sequence}, waiting)) return std::nullopt;
    const server::Reply reply = give(*command);
    decide(now);
    return reply;
  }
  void decide(Clock::time_point at) {
    now = at;
    auto decided = holds.decide(now, sequences());
    for (auto& cut : decided.make) {
      const server::Reply reply = give(cut_command(cut.request.cut));
      calls::Answered answer;
      if (reply.status == Status::done) {
        answer.content = calls::encode_pushes(state.last_pushes(cut.request.cut));
      } else {
        answer.outcome = calls::Outcome::refused;
        answer.reason = reply.message;
      }
      cut.answer(answer);
    }
    for (auto& [answer, why] : decided.refuse) {
      calls::Answered refused;
      refused.outcome = calls::Outcome::busy;
      refused.reason = why;
      answer(refused);
    }
  }
  std::map<std::uint64_t, std::uint64_t> sequences() const {
    std::map<std::uint64_t, std::uint64_t> all;
    for (const ClientStatus& status : state.status().clients) {
      all[status.id] = status.client.sequence;
    }
    return all;
  }

  server::ShardState state;
  host::CutHolds holds;
  Clock::time_point now{};
  bool away = false;         // nobody answers
  std::size_t commands = 0;  // that were asked for by the coordinator
};

class World {
 public:
  explicit World(JobPlan plan = small_plan(), std::optional<BatchGroups> groups = std::nullopt)
      : batch(groups), plan_(std::move(plan)), shards(plan_.shards) {
    for (std::uint32_t shard = 0; shard < plan_.shards; ++shard) {
      const replication::Configuration configuration{
          shard, 1, {servers_of(shard, plan_)[0], 1}, {}};
      store[ConfigurationKeeper::key_of(shard)] = {1, ConfigurationKeeper::encode(configuration)};
    }
    start();
  }

  // As if the process had been killed; what was asked of the store and not done is lost.
  void start() {
    if (durable_.empty()) durable_ = store;
    pending_writes.clear();
    asks_.clear();
    CoreOptions options;
    options.job = {"0123456789abcdef0123456789abcdef", plan_};
    options.term = ++term_;
    options.life = term_;
    options.largest_value = largest_value;
    options.batch = batch;
    core = std::make_unique<Core>(now, options, store);
    ++life_;
    carry_out(core->begin());
  }

  // The id of a call of which the answer may come later.
  CallId send(std::string_view method, const Message& request) {
    const CallId call = ++calls_;
    carry_out(core->call(now, call, method, request));
    return call;
  }
  std::optional<Message> answer(CallId call) {
    const auto found = answers.find(call);
    if (found == answers.end()) return std::nullopt;
    if (!found->second.problem.empty()) throw UsageError(found->second.problem);
    return found->second.message;
  }
  // The answer, which has to be there by now. Throws UsageError when the call fails.
  Message call(std::string_view method, const Message& request) {
    const auto message = answer(send(method, request));
    if (!message) throw Failure("no answer to " + std::string(method));
    return *message;
  }

  void pass(std::uint64_t milliseconds) {
    for (const Time until = now + milliseconds * 1000; now < until;) {
      now += std::min<Time>(until - now, 50'000);
      tick();
    }
  }
  void tick() {
    for (FakeShard& shard : shards) {
      shard.decide(Clock::time_point(std::chrono::microseconds(now)));
    }
    carry_out(core->tick(now));
  }
  // What is under way between coordinator, store and shards, to its end.
  void store_now() {
    while (!pending_writes.empty()) {
      const StoreWrites writes = std::move(pending_writes.front());
      pending_writes.pop_front();
      apply(writes);
      carry_out(core->stored(now, writes.ticket));
    }
  }

  // The next write alone; false when there is none.
  bool store_one() {
    if (pending_writes.empty()) return false;
    const StoreWrites writes = std::move(pending_writes.front());
    pending_writes.pop_front();
    apply(writes);
    carry_out(core->stored(now, writes.ticket));
    return true;
  }
  bool says(const std::string& what) const {
    for (const std::string& line : lines) {
      if (line.find(what) != std::string::npos) return true;
    }
    return false;
  }

  void ready(std::uint64_t samples = 64, bool initialized = true) {
    for (std::uint64_t server = 1; server <= plan_.servers; ++server) {
      call(calls::kServer,
           calls::encode(calls::ServerHello{server, 1, "server-" + std::to_string(server)}));
    }
    call(calls::kDescribe, calls::encode(small_description(samples)));
    if (initialized) call(calls::kInitialized, calls::encode_nothing());
  }
  std::uint64_t join(ClientRole role = ClientRole::replica, std::uint64_t group = 0,
                     std::uint32_t member = 0, std::uint32_t members = 1) {
    calls::ClientHello hello{"client", role, group, member, members, std::nullopt};
    if (role == ClientRole::replica) hello.description = small_description(samples_of_job());
    const auto welcome = calls::decode_client_welcome(call(calls::kJoin, calls::encode(hello)));
    return welcome.client;
  }
  std::uint64_t join_shards(std::uint64_t client) {
    for (FakeShard& shard : shards) shard.give(join_command(client, "client"));
    return client;
  }
  calls::LeaseAnswer lease(std::uint64_t client, std::vector<std::uint64_t> finished = {},
                           std::uint64_t last = 0) {
    return calls::decode_lease_answer(
        call(calls::kLease, calls::encode(calls::LeaseRequest{client, last, std::move(finished)})));
  }
  bool beat(std::uint64_t client) {
    return calls::decode_beat_answer(call(calls::kBeat, calls::encode(calls::Beat{client, 0, {}})))
        .known;
  }
  JobProgress progress() {
    return calls::decode_progress(call(calls::kProgress, calls::encode_nothing()));
  }
  calls::JobState job() {
    return calls::decode_job_state(call(calls::kJob, calls::encode_nothing()));
  }
  std::uint64_t samples_of_job() {
    const auto state = job();
    return state.description ? state.description->epoch_samples : 0;
  }

  void set_recipe(const std::string& recipe) { plan_.recipe = recipe; }  // of the next start
  void settle() { durable_ = store; }
  // The store's host loses its power: what need not survive that is gone.
  void cut_power() {
    store = durable_;
    start();
  }

  // What a batch optimization asks the core for.
  void batch_event(Effects effects) { carry_out(std::move(effects)); }

  std::optional<BatchGroups> batch;
  std::map<std::string, Value> store;
  std::size_t largest_value = SIZE_MAX;
  bool storing = true;  // else writes wait for store_now()
  std::deque<StoreWrites> pending_writes;
  std::unique_ptr<Core> core;
  Time now = 1'000'000;
  std::map<CallId, AnswerCall> answers;
  std::vector<std::string> lines;
  std::vector<EvaluationOver> evaluations;
  std::vector<std::uint64_t> kept;                    // tokens
  std::function<bool()> lost = [] { return false; };  // whether a message to or from a shard is

 private:
  JobPlan plan_;

 public:
  std::vector<FakeShard> shards;

 private:
  void apply(const StoreWrites& writes) {
    for (const Write& write : writes.writes) {
      if (write.value) {
        store[write.key] = {++revision_, *write.value};
      } else {
        store.erase(write.key);
      }
    }
    if (writes.survives == Survives::power) durable_ = store;
  }

  void carry_out(Effects effects) {
    for (Effect& effect : effects) {
      if (auto* answer = std::get_if<AnswerCall>(&effect)) {
        EXPECT_TRUE(answers.emplace(answer->call, *answer).second) << "answered twice";
      } else if (auto* writes = std::get_if<StoreWrites>(&effect)) {
        EXPECT_LE(writes->writes.size(), 100u);
        pending_writes.push_back(std::move(*writes));
      } else if (auto* ask = std::get_if<AskServer>(&effect)) {
        asks_.push_back(std::move(*ask));
      } else if (auto* over = std::get_if<EvaluationOver>(&effect)) {
        evaluations.push_back(*over);
      } else if (auto* stored = std::get_if<BatchKept>(&effect)) {
        kept.push_back(stored->token);
      } else if (auto* tell = std::get_if<Tell>(&effect)) {
        lines.push_back(tell->line);
      }
    }
    if (busy_) return;
    busy_ = true;
    const int life = life_;
    while (life == life_ && (!asks_.empty() || (storing && !pending_writes.empty()))) {
      if (storing) store_now();
      if (asks_.empty()) continue;
      const AskServer ask = std::move(asks_.front());
      asks_.pop_front();
      serve(ask);
    }
    busy_ = false;
  }

  void serve(const AskServer& ask) {
    const std::uint32_t number = calls::shard_of(ask.request);
    FakeShard& shard = shards.at(number);
    const auto say = [this, id = ask.id, life = life_](const calls::Answered& answer) {
      if (life != life_) return;
      if (lost()) return carry_out(core->answered(now, id, std::nullopt, "lost"));
      carry_out(core->answered(now, id, calls::encode(answer), ""));
    };
    if (shard.away || lost()) {
      return carry_out(core->answered(now, ask.id, std::nullopt, "nobody answers"));
    }
    calls::Answered answer;
    if (ask.method == calls::kCommand) {
      ++shard.commands;
      answer.content = Message::of(encode(shard.give(calls::decode_command(ask.request).gather())));
    } else if (ask.method == calls::kReport) {
      const ShardStatus status = shard.state.status();
      calls::ShardReport report;
      report.server = 1;
      report.role = 3;
      report.applied = status.applied;
      report.versions = status.versions;
      report.clients = status.clients;
      report.staleness = status.staleness;
      report.ledger = status.ledger;
      report.cuts = status.cuts;
      answer.content = calls::encode(report);
    } else if (ask.method == calls::kCut) {
      const calls::CutRequest request = calls::decode_cut(ask.request);
      const auto until =
          Clock::time_point(std::chrono::microseconds(now + request.milliseconds * 1000));
      shard.holds.add({request, say, until});
      return shard.decide(Clock::time_point(std::chrono::microseconds(now)));
    }
    say(answer);
  }

  std::deque<AskServer> asks_;
  std::map<std::string, Value> durable_;
  std::uint64_t term_ = 0, revision_ = 1;
  CallId calls_ = 0;
  int life_ = 0;
  bool busy_ = false;
};

}  // namespace convoy::server::coordinator::test
