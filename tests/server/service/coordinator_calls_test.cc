#include "server/service/coordinator_calls.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "convoy/base/error.h"
#include "server/service/portion_calls.h"

namespace convoy::server::calls {
namespace {

using transport::Message;

JobPlan plan() {
  JobPlan plan;
  plan.name = "mnist";
  plan.recipe = "strategy = \"downpour\"\n";
  plan.shards = 3;
  plan.servers = 4;
  plan.log = false;
  plan.synced = true;
  plan.staleness_bound = 7;
  plan.scale_by_staleness = true;
  plan.replicas = 5;
  plan.client_lease_ms = 4001;
  plan.server_lease_ms = 2001;
  plan.batch = 16;
  plan.portion = 64;
  plan.epochs = 3;
  plan.samples = 100'000;
  plan.drop_last = true;
  plan.warm_samples = 500;
  plan.warm_seconds = 1.5;
  plan.first_epoch = 2;
  plan.consumed = {{0, 16}, {32, 40}};
  return plan;
}

JobDescription description() {
  optim::Adagrad adagrad;
  adagrad.lr = 0.05;
  return {"lenet",
          {{"conv.weight", 150, adagrad}, {"bn.running_mean", 6, std::nullopt}},
          60000,
          "mnist 1f"};
}

ReplicaReport report() { return {1, 2, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9}; }

JobProgress progress() {
  return {"converged", 4, {{0, 64}, {128, 200}}, 240'264, 17, 2, true, 5, report()};
}

JobState state() {
  JobState state;
  state.id = "0123456789abcdef0123456789abcdef";
  state.plan = plan();
  state.description = description();
  state.initialized = true;
  state.ended = "all is done";
  state.servers = {{1, "10.0.0.1:7000"}, {2, ""}};
  state.configurations = {{0, 3, {1, 77}, {2, 78}}, {1, 1, {2, 78}, {}}};
  return state;
}

// What was encoded is decoded to what encodes to the same bytes; no part of it is anything, nor is
// it with a byte more, nor with another version.
template <typename Decode>
auto round_trip(const Message& message, Decode decode) {
  const Bytes bytes = message.gather();
  auto decoded = decode(message);
  EXPECT_EQ(encode(decoded).gather(), bytes);
  // In pieces, as it may come.
  Message pieces;
  for (const std::byte& byte : bytes) pieces.append({std::span(&byte, 1), nullptr});
  EXPECT_EQ(encode(decode(pieces)).gather(), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode(Message::copy_of(std::span(bytes).first(size))), UsageError) << size;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_THROW(decode(Message::of(longer)), UsageError);
  Bytes newer = bytes;
  newer[0] = std::byte{2};
  EXPECT_THROW(decode(Message::of(newer)), UsageError);
  // Whatever a byte is, nothing worse happens than that it is refused.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const int flip : {1, 0x80, 0xff}) {
      Bytes damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(flip);
      try {
        decode(Message::of(damaged));
      } catch (const UsageError&) {
      }
    }
  }
  return decoded;
}

TEST(CoordinatorCalls, StateOfTheJob) {
  const JobState decoded = round_trip(encode(state()), decode_job_state);
  EXPECT_EQ(decoded.id, state().id);
  EXPECT_EQ(decoded.plan, plan());
  EXPECT_EQ(decoded.description, description());
  EXPECT_TRUE(decoded.initialized);
  EXPECT_EQ(decoded.ended, "all is done");
  ASSERT_EQ(decoded.servers.size(), 2u);
  EXPECT_EQ(decoded.servers[0].address, "10.0.0.1:7000");
  EXPECT_EQ(decoded.servers[1].server, 2u);
  EXPECT_EQ(decoded.configurations, state().configurations);
  JobState first;
  first.id = state().id;
  first.plan.backups = false;
  EXPECT_FALSE(round_trip(encode(first), decode_job_state).description);
  first.id = "0123456789ABCDEF0123456789abcdef";
  EXPECT_THROW(decode_job_state(encode(first)), UsageError);
}

TEST(CoordinatorCalls, Hellos) {
  EXPECT_EQ(round_trip(encode(description()), decode_description), description());
  const ServerHello server = round_trip(encode(ServerHello{3, 99, "h:1"}), decode_server_hello);
  EXPECT_EQ(server.server, 3u);
  EXPECT_EQ(server.incarnation, 99u);
  EXPECT_EQ(server.address, "h:1");
  EXPECT_THROW(decode_server_hello(encode(ServerHello{0, 99, "h:1"})), UsageError);
  const ClientHello hello{"replica 2", ClientRole::evaluator, 12, 1, 2, description(), 55};
  const ClientHello client = round_trip(encode(hello), decode_client_hello);
  EXPECT_EQ(client.name, "replica 2");
  EXPECT_EQ(client.role, ClientRole::evaluator);
  EXPECT_EQ(client.group, 12u);
  EXPECT_EQ(client.member, 1u);
  EXPECT_EQ(client.members, 2u);
  EXPECT_EQ(client.description, description());
  EXPECT_EQ(client.nonce, 55u);
  for (const auto& [group, member, members] :
       {std::tuple{0u, 1u, 2u}, {5u, 0u, 2u}, {5u, 2u, 2u}, {0u, 0u, 0u}}) {
    EXPECT_THROW(decode_client_hello(
                     encode(ClientHello{"x", ClientRole::replica, group, member, members, {}})),
                 UsageError);
  }
  const ClientWelcome welcome = round_trip(encode(ClientWelcome{7, 3000}), decode_client_welcome);
  EXPECT_EQ(welcome.client, 7u);
  EXPECT_EQ(welcome.lease_ms, 3000u);
}

TEST(CoordinatorCalls, BeatsAndLeases) {
  const Beat beat = round_trip(encode(Beat{7, 4, report()}), decode_beat);
  EXPECT_EQ(beat.client, 7u);
  EXPECT_EQ(beat.number, 4u);
  EXPECT_EQ(beat.report.steps, 1u);
  EXPECT_EQ(beat.report.loss_sum, 3.5);
  EXPECT_EQ(beat.report.data_wait_s, 8.5);
  EXPECT_EQ(beat.report.skipped, 9u);
  const BeatAnswer answer = round_trip(encode(BeatAnswer{false, "over"}), decode_beat_answer);
  EXPECT_FALSE(answer.known);
  EXPECT_EQ(answer.ended, "over");
  const LeaseRequest request =
      round_trip(encode(LeaseRequest{7, 6, {3, 1, 2}, 5}), decode_lease_request);
  EXPECT_EQ(request.last, 6u);
  EXPECT_EQ(request.finished, (std::vector<std::uint64_t>{3, 1, 2}));
  EXPECT_EQ(request.round, 5u);

  LeaseAnswer lease{LeaseAnswer::Kind::portion, {8, 1, 64, 128}, 0, ""};
  EXPECT_EQ(round_trip(encode(lease), decode_lease_answer).portion, lease.portion);
  EXPECT_EQ(lease_of(lease).portion, lease.portion);
  lease = {LeaseAnswer::Kind::wait, {}, 50, "warm start"};
  const LeaseAnswer wait = round_trip(encode(lease), decode_lease_answer);
  EXPECT_EQ(lease_of(wait).kind, Lease::Kind::wait);
  EXPECT_EQ(lease_of(wait).wait, std::chrono::milliseconds(50));
  EXPECT_EQ(lease_of(wait).why, "warm start");
  for (const Portion& bad :
       {Portion{}, Portion{1, 0, 9, 8}, Portion{std::uint64_t{1} << 32, 0, 0, 1}}) {
    lease = {LeaseAnswer::Kind::portion, bad, 0, ""};
    EXPECT_THROW(decode_lease_answer(encode(lease)), UsageError);
  }
}

TEST(CoordinatorCalls, CutsProgressAndTheEnd) {
  EXPECT_EQ(round_trip(encode(ClientRequest{7}), decode_client_request).client, 7u);
  EXPECT_EQ(round_trip(encode(DropCutRequest{7, 8}), decode_drop_cut).cut, 8u);
  EXPECT_EQ(round_trip(encode(EndRequest{7, "enough"}), decode_end).why, "enough");
  const JobProgress decoded = round_trip(encode(progress()), decode_progress);
  EXPECT_EQ(decoded.ended, "converged");
  EXPECT_EQ(decoded.epoch, 4u);
  EXPECT_EQ(decoded.consumed, progress().consumed);
  EXPECT_EQ(decoded.samples, 240'264u);
  EXPECT_EQ(decoded.twice, 17u);
  EXPECT_EQ(decoded.redone, 2u);
  EXPECT_TRUE(decoded.all_done);
  EXPECT_EQ(decoded.replicas, 5u);
  const server::Cut cut = round_trip(encode(server::Cut{9, progress(), 1000}), decode_made_cut);
  EXPECT_EQ(cut.id, 9u);
  EXPECT_EQ(cut.version, 1000u);
  EXPECT_EQ(cut.progress.samples, 240'264u);
  JobProgress wrong = progress();
  wrong.consumed = {{5, 5}};
  EXPECT_THROW(decode_progress(encode(wrong)), UsageError);
}

TEST(CoordinatorCalls, TextsMessagesAndNothing) {
  const std::string text(100'000, 'x');
  EXPECT_EQ(decode_text(encode_text(text)), text);
  decode_nothing(encode_nothing());
  EXPECT_THROW(decode_nothing(encode_text("")), UsageError);
  EXPECT_THROW(decode_nothing(Message()), UsageError);

  using namespace replication;
  const std::vector<replication::Message> messages = {
      {1, {2, 3}, {}, Report{{4, 5}, 6, Role::backup, true, false, {6, 7}, 8, 9}},
      {0, {}, {2, 3}, Newest{{4, 5}, {0, 3, {1, 77}, {2, 78}}}}};
  const auto decoded = decode_replication(encode(messages));
  ASSERT_EQ(decoded.size(), 2u);
  EXPECT_EQ(std::get<Report>(decoded[0].body), std::get<Report>(messages[0].body));
  EXPECT_EQ(decoded[0].from, messages[0].from);
  EXPECT_EQ(std::get<Newest>(decoded[1].body), std::get<Newest>(messages[1].body));
  EXPECT_TRUE(decode_replication(encode_nothing()).empty());
  const Bytes bytes = encode(messages).gather();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto part = Message::copy_of(std::span(bytes).first(size));
    try {  // between two messages it ends well
      EXPECT_LT(decode_replication(part).size(), 2u);
    } catch (const UsageError&) {
    }
  }
}

TEST(Job, RefusesPlansThatMakeNoSense) {
  const auto refused = [](const std::function<void(JobPlan&)>& change, const std::string& word) {
    JobPlan bad = plan();
    change(bad);
    Writer writer;
    write(writer, bad);
    Reader reader(writer.view(), "test");
    try {
      read_job_plan(reader);
      ADD_FAILURE() << "accepted: " << word;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  check(plan());
  JobPlan least;
  least.backups = false;
  check(least);
  refused([](JobPlan& p) { p.shards = 0; }, "shards is 0");
  refused([](JobPlan& p) { p.servers = 1; }, "servers is 1");
  refused([](JobPlan& p) { p.replicas = 0; }, "replicas");
  refused([](JobPlan& p) { p.batch = 0; }, "batch");
  refused([](JobPlan& p) { p.portion = 24; }, "multiple");
  refused([](JobPlan& p) { p.staleness_bound = 0; }, "rounds");
  refused([](JobPlan& p) { p.client_lease_ms = 0; }, "client_lease_ms");
  refused([](JobPlan& p) { p.warm_seconds = std::nan(""); }, "warm_seconds");
  refused([](JobPlan& p) { p.warm_seconds = -1; }, "warm_seconds");
  refused([](JobPlan& p) { p.epochs = UINT64_MAX; }, "epochs");
  refused([](JobPlan& p) { p.samples = UINT64_MAX; }, "samples");
  refused([](JobPlan& p) { p.consumed = {{0, 4}, {3, 6}}; }, "ascend");
  refused([](JobPlan& p) { p.consumed = {{0, UINT64_MAX}}; }, "consumed");
}

TEST(PortionCalls, ComeBackFromTheirBytes) {
  PortionRequest request;
  request.client = 7;
  request.evaluation = {12, 3};
  request.held = {{8, 3}, {16, 0}};
  request.finished = {{{4, 1}, {0.5, -2}}};
  request.at_once = true;
  const Message asked = encode(request);
  const PortionRequest again = decode_portion_request(asked);
  EXPECT_EQ(again.client, 7u);
  EXPECT_EQ(again.evaluation, request.evaluation);
  EXPECT_EQ(again.held, request.held);
  ASSERT_EQ(again.finished.size(), 1u);
  EXPECT_EQ(again.finished[0].group, (PortionGroup{4, 1}));
  EXPECT_EQ(again.finished[0].losses, (std::vector<double>{0.5, -2}));
  EXPECT_TRUE(again.at_once);

  PortionAnswer answer;
  answer.kind = PortionAnswer::Kind::group;
  answer.evaluation = {12, 4};
  answer.portions = 200;
  answer.group = {32, 4};
  answer.copy = true;
  answer.unused = {{8, 3}};
  answer.why = "why";
  const Message said = encode(answer);
  const PortionAnswer told = decode_portion_answer(said);
  EXPECT_EQ(told.kind, answer.kind);
  EXPECT_EQ(told.evaluation, answer.evaluation);
  EXPECT_EQ(told.portions, 200u);
  EXPECT_EQ(told.group, answer.group);
  EXPECT_TRUE(told.copy);
  EXPECT_EQ(told.unused, answer.unused);
  EXPECT_EQ(told.why, "why");

  const auto refused = [](const Bytes& bytes, auto decode) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(decode(Message::copy_of(std::span(bytes).first(size))), UsageError);
    }
  };
  refused(asked.gather(), decode_portion_request);
  refused(said.gather(), decode_portion_answer);
  request.held = {{4, 3}};  // 4 is no multiple of 8
  EXPECT_THROW(decode_portion_request(encode(request)), UsageError);
  request.held.assign(kMostHeld + 1, {0, 0});
  EXPECT_THROW(decode_portion_request(encode(request)), UsageError);
}

TEST(Job, EachShardHasItsServers) {
  JobPlan plan;
  plan.shards = 3;
  plan.servers = 3;
  EXPECT_EQ(servers_of(0, plan), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(servers_of(2, plan), (std::vector<std::uint64_t>{3, 1}));
  plan.servers = 2;
  EXPECT_EQ(servers_of(2, plan), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(servers_needed(plan), 2u);
  plan.backups = false;
  EXPECT_EQ(servers_of(1, plan), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(servers_needed(plan), 1u);
}

TEST(Job, SaysWhatDiffers) {
  const JobDescription here = description();
  EXPECT_EQ(difference(here, here), "");
  const auto says = [&](const std::function<void(JobDescription&)>& change,
                        const std::string& expected) {
    JobDescription there = description();
    change(there);
    EXPECT_EQ(difference(here, there), expected);
  };
  says([](auto& d) { d.vectors.pop_back(); }, "the number of vectors is 2 here, 1 there");
  says([](auto& d) { d.vectors[1].name = "x"; }, "vector 1 is 'bn.running_mean' here, 'x' there");
  says([](auto& d) { d.vectors[0].elements = 25; },
       "the size of 'conv.weight' is 150 here, 25 there");
  says([](auto& d) { d.vectors[0].rule = std::nullopt; },
       "the rule of 'conv.weight' is adagrad with lr 0.050000 here, none (a statistic) there");
  says([](auto& d) { std::get<optim::Adagrad>(*d.vectors[0].rule).eps = 1; },
       "the rule of 'conv.weight', adagrad with lr 0.050000 on both sides, has other fields there");
  says([](auto& d) { d.epoch_samples = 1; },
       "the number of samples in an epoch is 60000 here, 1 there");
  says([](auto& d) { d.data = "cifar"; }, "the data is 'mnist 1f' here, 'cifar' there");
  says([](auto& d) { d.model = "mlp"; }, "the model is 'lenet' here, 'mlp' there");
}

TEST(WatchCalls, ComeBackFromTheirBytes) {
  const WatchRequest request{7, 12, WatchRequest::Hold::hold};
  const Message asked = encode(request);
  const WatchRequest again = decode_watch_request(asked);
  EXPECT_EQ(again.client, 7u);
  EXPECT_EQ(again.after, 12u);
  EXPECT_EQ(again.hold, request.hold);

  WatchAnswer answer;
  BatchProgress& progress = answer.progress;
  answer.start = {std::byte{1}, std::byte{2}};
  progress.ended = "e";
  progress.over = "o";
  progress.method = optim::BatchMethod::conjugate_gradient;
  progress.evaluation = {12, 3};
  progress.portions = 200;
  progress.now = {1, 2, 3, 4};
  progress.iteration = {5, 6, 7, 8};
  progress.all = {9, 10, 11, 12};
  progress.term = 13;
  progress.time_s = 14.5;
  progress.method_bytes = 27;
  progress.portion_bytes = 28;
  progress.replicas = {{15, "name", true, {16, 17, 18, 19}, 20.5}};
  progress.groups = {{21, {22, 23}, {32, 4}, 24, true, GroupRecord::End::lost, 25.5, 26.5}};
  const Message said = encode(answer);
  const WatchAnswer told = decode_watch_answer(said);
  EXPECT_EQ(encode(told).gather(), said.gather());
  EXPECT_EQ(told.start, answer.start);
  EXPECT_EQ(told.progress.over, "o");
  EXPECT_EQ(told.progress.method, progress.method);
  EXPECT_EQ(told.progress.iteration, progress.iteration);
  EXPECT_EQ(told.progress.all, progress.all);
  EXPECT_EQ(told.progress.method_bytes, 27u);
  EXPECT_EQ(told.progress.portion_bytes, 28u);
  ASSERT_EQ(told.progress.replicas.size(), 1u);
  EXPECT_EQ(told.progress.replicas[0].name, "name");
  EXPECT_EQ(told.progress.replicas[0].busy_s, 20.5);
  ASSERT_EQ(told.progress.groups.size(), 1u);
  EXPECT_EQ(told.progress.groups[0].group, (PortionGroup{32, 4}));
  EXPECT_EQ(told.progress.groups[0].end, GroupRecord::End::lost);
  EXPECT_EQ(told.progress.groups[0].ended_s, 26.5);

  const Message from = encode(BatchFrom{7, answer.start});
  EXPECT_EQ(decode_batch_from(from).client, 7u);
  EXPECT_EQ(decode_batch_from(from).start, answer.start);

  const auto refused = [](const Bytes& bytes, auto decode) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(decode(Message::copy_of(std::span(bytes).first(size))), UsageError);
    }
  };
  refused(asked.gather(), decode_watch_request);
  refused(said.gather(), decode_watch_answer);
  refused(from.gather(), decode_batch_from);
  progress.groups.resize(kMostRecords + 1);
  EXPECT_THROW(decode_watch_answer(encode(answer)), UsageError);
}

}  // namespace
}  // namespace convoy::server::calls
