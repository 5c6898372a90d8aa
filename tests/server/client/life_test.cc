// How a client begins, what it tells the coordinator, and how it ends.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/base/patience.h"
#include "tests/base/scratch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server::client {
namespace {

using namespace test;
using convoy::test::message_of;

bool soon(const std::function<bool()>& is_so) {
  const auto end = Clock::now() + convoy::test::patience();
  while (!is_so()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

TEST(Life, WaitsForTheCoordinator) {
  Cluster cluster(plan_of(1));
  cluster.set_coordinator_up(false);
  ClientOptions hasty = cluster.options("hasty");
  hasty.patience = 200ms;
  EXPECT_THROW(cluster.client(hasty), Failure);
  std::thread back([&] {
    std::this_thread::sleep_for(300ms);
    cluster.set_coordinator_up(true);
  });
  EXPECT_EQ(cluster.client("patient")->plan(), plan_of(1));
  back.join();
}

TEST(Life, GivesUpWhileItWaitsWhenTold) {
  Cluster cluster(plan_of(1));
  std::atomic<bool> told = false;
  ClientOptions options = cluster.options("told");
  options.give_up = [&] { return told.load(); };
  const auto client = cluster.client(options);
  // For values, which nobody gives.
  std::thread teller([&] {
    std::this_thread::sleep_for(200ms);
    told = true;
  });
  EXPECT_NE(message_of<GaveUp>([&] { client->join(description_of({3}), {}); }).find("told to stop"),
            std::string::npos);
  teller.join();
  // For the coordinator; far from the end of its patience.
  cluster.set_coordinator_up(false);
  EXPECT_NE(message_of<GaveUp>([&] { cluster.client(options); }).find("told to stop"),
            std::string::npos);
  EXPECT_NE(message_of<GaveUp>([&] { client->join(description_of({3}), {}); }).find("told to stop"),
            std::string::npos);
}

TEST(Life, AnotherVersionIsAMistake) {
  transport::ServerSettings settings;
  settings.identity = {std::string(calls::kCoordinator), ""};
  settings.handler = [](transport::Request, transport::Reply reply) {
    reply.send(transport::Message::copy_of(std::string_view("\2\0 and so on", 12)));
  };
  transport::test::LocalServer newer(settings);
  settings.identity = {"something else", ""};
  transport::test::LocalServer other(settings);
  ClientOptions options;
  const auto client = [&](transport::test::LocalServer& server) {
    return message_of<UsageError>([&] {
      Core core(options, [&](const std::string&) {
        return std::make_unique<transport::test::LocalConnector>(server);
      });
    });
  };
  EXPECT_NE(client(newer).find("version 2"), std::string::npos);
  EXPECT_NE(client(other).find("something else"), std::string::npos);
}

TEST(Life, DescribesAndInitializes) {
  const JobDescription description = description_of({3, 60000, 0, 4}, optim::Adam{.lr = 1});
  const Values values =
      values_of(description, [](auto v, auto i) { return v == 3 ? 5 : static_cast<float>(i); });
  const Values sums =
      values_of(description, [](auto, auto i) { return static_cast<float>(i) / 2; });
  JobPlan plan = plan_of(2);
  plan.staleness_bound = 9;
  plan.scale_by_staleness = true;
  Cluster cluster(plan);
  const auto evaluator = cluster.client("evaluator");
  EXPECT_THROW(evaluator->initialize(read(values), {}, 0), UsageError);
  EXPECT_FALSE(evaluator->describe(description));
  EXPECT_FALSE(evaluator->describe(description));
  std::vector<std::vector<std::span<const float>>> slots(4);
  for (std::size_t v : {0, 1, 2}) slots[v] = {sums[v], values[v]};  // the last one: initial
  // In parts, and some twice: whoever comes first wins.
  evaluator->initialize(std::vector<ReadView>{{1, values[1]}, {0, values[0]}}, slots, 7);
  EXPECT_FALSE(cluster.job().initialized);
  Values late = values_of(description, [](auto, auto) { return 1.0F; });
  late[3] = values[3];
  evaluator->initialize(read(late), slots, 7);
  EXPECT_TRUE(cluster.job().initialized);
  EXPECT_TRUE(evaluator->describe(description));

  const Layout layout(plan, description);
  EXPECT_EQ(layout.of_vector(1).size(), 2u);
  for (std::uint32_t v = 0; v < 4; ++v) {
    EXPECT_EQ(cluster.values(layout, v), values[v]);
    if (v == 3) continue;
    EXPECT_EQ(cluster.values(layout, v, 1), sums[v]);
    EXPECT_EQ(cluster.values(layout, v, 2), values[v]);
  }
  EXPECT_EQ(cluster.values(layout, 3, 1), std::vector<float>(4));
  const auto definition = cluster.shard(0).definition();
  EXPECT_EQ(definition, layout.definition(0));
  EXPECT_EQ(definition->staleness_bound, 9u);
  EXPECT_TRUE(definition->scale_by_staleness);
  EXPECT_EQ(cluster.shard(1).status().versions.back(), 7u);

  // Who describes something else reads what.
  JobDescription other = description;
  other.vectors[1].elements = 60001;
  const std::string why = message_of<UsageError>([&] { evaluator->describe(other); });
  EXPECT_NE(why.find("the size of 'w1' is 60001 here, 60000 there"), std::string::npos) << why;
  const auto replica = cluster.client("replica");
  EXPECT_NE(message_of<UsageError>([&] { replica->join(other, {}); }).find("'w1'"),
            std::string::npos);
  EXPECT_EQ(replica->id(), 0u);
  Values bad = values;
  bad[0][0] = std::numeric_limits<float>::infinity();
  Cluster fresh(plan);
  const auto next = fresh.client("evaluator");
  next->describe(description);
  EXPECT_NE(message_of<UsageError>([&] { next->initialize(read(bad), {}, 0); }).find("'w0'"),
            std::string::npos);
  EXPECT_FALSE(fresh.job().initialized);
}

// What is initialized needs several commands, and answers get lost.
TEST(Life, InitializesMuch) {
  const JobDescription description = description_of({2 << 20, 2 << 20, 3 << 20, 5 << 20, 5});
  const Values values =
      values_of(description, [](auto v, auto i) { return static_cast<float>(v + i % 13); });
  Cluster cluster(plan_of(1));
  std::atomic<int> count = 0;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string&) {
    return count++ % 3 == 1 ? Fault::unknown_after : Fault::none;
  };
  begin(cluster, description, values);
  const Layout layout(plan_of(1), description);
  for (std::uint32_t v = 0; v < 5; ++v) EXPECT_EQ(cluster.values(layout, v), values[v]);
  EXPECT_GE(cluster.shard(0).applied(), 1u + 4);
}

TEST(Life, AReplicaWaitsForValues) {
  const JobDescription description = description_of({3, 4});
  Cluster cluster(plan_of(1));
  const auto replica = cluster.client("replica");
  std::thread evaluator([&] {
    std::this_thread::sleep_for(200ms);
    begin(cluster, description, {{1, 2, 3}, {4, 5, 6, 7}});
  });
  replica->join(description, {});
  EXPECT_TRUE(cluster.job().initialized);
  EXPECT_GE(replica->id(), 100u);
  evaluator.join();
  cluster.end("enough");
  const auto late = cluster.client("late");
  EXPECT_EQ(message_of<Failure>([&] { late->join(description, {}); }), "the job is over: enough");
}

// Only shards that have something of a client's know it.
TEST(Life, JoinsTheShardsOfItsVectors) {
  const JobDescription description = description_of({1000, 1000, 1000});
  Cluster cluster(plan_of(3));
  begin(cluster, description, values_of(description, [](auto, auto) { return 1.0F; }));
  const auto all = cluster.client("all"), one = cluster.client("one");
  all->join(description, {});
  one->join(description, std::vector<std::uint32_t>{1});
  EXPECT_EQ(cluster.shard(0).status().clients.size(), 1u);
  EXPECT_EQ(cluster.shard(1).status().clients.size(), 2u);
  EXPECT_EQ(cluster.shard(2).status().clients.size(), 1u);
  EXPECT_THROW(one->join(description, std::vector<std::uint32_t>{3}), UsageError);
}

TEST(Life, ReportsAreCountedOnce) {
  const JobDescription description = description_of({3});
  Cluster cluster(plan_of(1));
  begin(cluster, description, {{1, 2, 3}});
  const auto client = cluster.client("replica");
  EXPECT_THROW(client->report({}), UsageError);
  client->join(description, {});
  cluster.deaf_to_reports = true;  // heard, but the answers don't come
  client->report({1, 10, 0.5, 1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(soon([&] { return cluster.reported().steps == 1; }));
  client->report({2, 20, 0.5, 1, 2, 3, 4, 5, 7});
  const std::uint64_t beats = cluster.requests("beat");
  ASSERT_TRUE(soon([&] { return cluster.requests("beat") > beats + 2; }));
  EXPECT_EQ(cluster.reported().samples, 10u);
  cluster.deaf_to_reports = false;
  ASSERT_TRUE(soon([&] { return cluster.reported().steps == 3; }));
  client->report({4, 40, 1, 1, 0, 0, 0, 0, 8});
  client->leave();  // says what is left
  const ReplicaReport all = cluster.reported();
  EXPECT_EQ(all.steps, 7u);
  EXPECT_EQ(all.samples, 70u);
  EXPECT_EQ(all.loss_sum, 2);
  EXPECT_EQ(all.compute_s, 4);
  EXPECT_EQ(all.data_wait_s, 10);
  EXPECT_EQ(all.skipped, 8u);
  EXPECT_EQ(cluster.left().size(), 1u);
  EXPECT_EQ(client->id(), 0u);
  EXPECT_FALSE(cluster.shard(0).status().clients[0].client.member);
  client->leave();
  EXPECT_EQ(cluster.left().size(), 1u);
}

// Whoever hears that a portion is done may end the job: what it was like is not to come later.
TEST(Life, ReportsComeWithPortionsThatAreDone) {
  const JobDescription description = description_of({3});
  JobPlan plan = plan_of(1);
  plan.client_lease_ms = 3'600'000;  // signs of life are far apart
  Cluster cluster(plan);
  begin(cluster, description, {{1, 2, 3}});
  const auto client = cluster.client("replica");
  client->join(description, {});
  ASSERT_TRUE(soon([&] { return cluster.requests("beat") > 0; })) << "the first one";
  cluster.on_lease = [](const calls::LeaseRequest&) {
    return calls::LeaseAnswer{calls::LeaseAnswer::Kind::wait, {}, 50, ""};
  };
  client->report({1, 10, 0.5, 1});
  client->lease({});
  EXPECT_EQ(cluster.reported().steps, 0u) << "nothing is done yet";
  client->lease(std::vector<std::uint64_t>{5});
  EXPECT_EQ(cluster.steps_before_leases(), (std::vector<std::uint64_t>{0, 1}));
  client->report({2, 20, 0.5, 1});
  cluster.deaf_to_beats = true;  // refused, so that nobody waits for more
  client->lease(std::vector<std::uint64_t>{6});
  cluster.deaf_to_beats = false;
  // The one that was refused comes again, and what is pending behind it.
  client->report({4, 40, 0.5, 1});
  client->lease(std::vector<std::uint64_t>{7});
  EXPECT_EQ(cluster.steps_before_leases(), (std::vector<std::uint64_t>{0, 1, 3, 7}));
}

TEST(Life, LearnsThatItIsLostOrThatAllIsOver) {
  const JobDescription description = description_of({3});
  Cluster cluster(plan_of(1));
  begin(cluster, description, {{1, 2, 3}});
  const auto client = cluster.client("replica");
  client->join(description, {});
  cluster.set_coordinator_up(false);
  std::this_thread::sleep_for(400ms);  // longer than its lease: it is for the coordinator to say
  EXPECT_FALSE(client->lost());
  cluster.set_coordinator_up(true);
  cluster.end("enough");
  EXPECT_TRUE(soon([&] { return client->ended() == "enough"; }));
  EXPECT_FALSE(client->lost());
  cluster.forget(client->id());
  EXPECT_TRUE(soon([&] { return client->lost(); }));
  client->leave();
  EXPECT_TRUE(cluster.left().empty());  // has nothing to leave
}

TEST(Life, Leases) {
  const JobDescription description = description_of({3});
  Cluster cluster(plan_of(1));
  begin(cluster, description, {{1, 2, 3}});
  const auto client = cluster.client("replica");
  EXPECT_THROW(client->lease({}), UsageError);
  client->join(description, {});
  calls::LeaseAnswer answer{calls::LeaseAnswer::Kind::portion, {5, 1, 64, 128}, 0, ""};
  cluster.on_lease = [&](const calls::LeaseRequest&) { return answer; };
  EXPECT_EQ(client->lease({}).portion, (Portion{5, 1, 64, 128}));
  answer = {calls::LeaseAnswer::Kind::wait, {}, 50, "warm start"};
  const Lease wait = client->lease(std::vector<std::uint64_t>{5});
  EXPECT_EQ(wait.kind, Lease::Kind::wait);
  EXPECT_EQ(wait.wait, 50ms);
  EXPECT_EQ(wait.why, "warm start");
  answer = {calls::LeaseAnswer::Kind::finished, {}, 0, ""};
  EXPECT_EQ(client->lease({}).kind, Lease::Kind::finished);
  const auto leases = cluster.leases();
  ASSERT_EQ(leases.size(), 3u);
  EXPECT_EQ(leases[0].last, 0u);
  EXPECT_EQ(leases[1].last, 5u);
  EXPECT_EQ(leases[1].finished, (std::vector<std::uint64_t>{5}));
  cluster.forget(client->id());
  EXPECT_THROW(client->lease({}), Failure);
  EXPECT_TRUE(client->lost());
}

TEST(Life, RatesAscend) {
  JobDescription description = description_of({3, 30000, 4});
  description.vectors[2].rule.reset();
  Cluster cluster(plan_of(2));
  begin(cluster, description, values_of(description, [](auto, auto) { return 1.0F; }));
  const auto evaluator = cluster.client("evaluator");
  using Rates = std::vector<std::pair<std::uint32_t, double>>;
  std::atomic<bool> loses = true;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string&) {
    return loses.exchange(false) ? Fault::unknown_after : Fault::none;
  };
  const auto rate = [&](std::uint32_t shard, std::size_t slice) {
    return optim::learning_rate(*cluster.shard(shard).definition()->slices[slice].rule);
  };
  evaluator->set_rates(Rates{{0, 0.5}, {1, 0.25}});
  EXPECT_EQ(rate(0, 0), 0.5);
  EXPECT_EQ(rate(0, 1), 0.25);
  EXPECT_EQ(rate(1, 0), 0.25);
  evaluator->set_rates(Rates{{1, 0.125}});
  EXPECT_EQ(rate(0, 1), 0.125);
  EXPECT_EQ(rate(1, 0), 0.125);
  // Somebody's clock was ahead.
  const auto ahead = std::chrono::duration_cast<std::chrono::microseconds>(
      (std::chrono::system_clock::now() + 1h).time_since_epoch());
  ShardState& shard = cluster.shard(1);
  shard.apply(shard.applied() + 1,
              set_rates_command(static_cast<std::uint64_t>(ahead.count()), {{0, 7}}));
  evaluator->set_rates(Rates{{1, 0.0625}});
  EXPECT_EQ(rate(0, 1), 0.0625);
  EXPECT_EQ(rate(1, 0), 0.0625);
  EXPECT_THROW(evaluator->set_rates(Rates{{2, 1}}), UsageError);
  EXPECT_THROW(evaluator->set_rates(Rates{{3, 1}}), UsageError);
  EXPECT_THROW(evaluator->set_rates(Rates{{0, -1}}), UsageError);
}

TEST(Life, OfAnEvaluator) {
  const JobDescription description = description_of({3});
  Cluster cluster(plan_of(1));
  begin(cluster, description, {{1, 2, 3}});
  ClientOptions options = cluster.options("evaluator");
  options.role = ClientRole::evaluator;
  const auto evaluator = cluster.client(options);
  EXPECT_EQ(evaluator->progress().samples, 12u);
  EXPECT_EQ(evaluator->status(), "{}");
  const server::Cut cut = evaluator->cut();
  EXPECT_NE(evaluator->id(), 0u);
  evaluator->drop_cut(cut);
  EXPECT_TRUE(cluster.shard(0).status().clients.empty());  // it is no member
  // One that was taken for dead goes on under another number.
  const std::uint64_t before = evaluator->id();
  cluster.forget(before);
  ASSERT_TRUE(soon([&] { return evaluator->lost(); }));
  evaluator->drop_cut(evaluator->cut());
  EXPECT_NE(evaluator->id(), before);
  // Also when it hears so only when it asks, since it stood still meanwhile.
  const std::uint64_t second = evaluator->id();
  cluster.forget(second);
  evaluator->drop_cut(evaluator->cut());
  EXPECT_NE(evaluator->id(), second);
  // What is wrong with a client that lives is for it to see.
  cluster.refuse_cuts = true;
  const std::uint64_t third = evaluator->id();
  EXPECT_NE(message_of<Failure>([&] { evaluator->cut(); }).find("no cut came about"),
            std::string::npos);
  EXPECT_EQ(evaluator->id(), third);
  cluster.forget(third);
  evaluator->end_job("all samples are done");
  EXPECT_NE(evaluator->id(), third);
  EXPECT_EQ(cluster.job().ended, "all samples are done");
  EXPECT_TRUE(soon([&] { return !evaluator->ended().empty(); }));
}

}  // namespace
}  // namespace convoy::server::client
