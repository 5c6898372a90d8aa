// A staleness bound of 0: synchronous SGD through clients.
#include <gtest/gtest.h>

#include <thread>

#include "convoy/base/random.h"
#include "tests/base/scratch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server::client {
namespace {

using namespace test;
using convoy::test::message_of;

// A gradient that depends on the weights, as a network's does.
void gradient_of(const Values& weights, std::uint64_t replica, std::uint64_t step, Values& g) {
  RandomStream random(replica, step);
  for (std::size_t v = 0; v < weights.size(); ++v) {
    for (std::size_t i = 0; i < weights[v].size(); ++i) {
      g[v][i] = weights[v][i] / 8 + static_cast<float>(random.uniform() - 0.5);
    }
  }
}

// Two replicas side by side, with answers that get lost, are the serial computation bit for bit.
TEST(Rounds, EqualTheSerialComputation) {
  const optim::Rule rule = optim::Sgd{.lr = 0.125, .momentum = 0.5};
  const JobDescription description = description_of({5, 40000, 7}, rule);
  const Values first =
      values_of(description, [](auto v, auto i) { return static_cast<float>(v + i % 7); });
  constexpr std::uint64_t kSteps = 8;

  Values serial = first;
  {
    Values state = values_of(description, [](auto, auto) { return 0.0F; });
    Values g[2] = {first, first};
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      for (std::uint64_t r : {0, 1}) gradient_of(serial, r, step, g[r]);
      for (std::size_t v = 0; v < serial.size(); ++v) {
        std::vector<float> mean(serial[v].size());
        for (std::size_t i = 0; i < mean.size(); ++i) {
          mean[i] = 0.25F * g[0][v][i];
          mean[i] = mean[i] + 0.75F * g[1][v][i];
        }
        const std::span<float> slots[] = {state[v]};
        optim::update<float>(rule, static_cast<std::int64_t>(step), serial[v], mean, slots);
      }
    }
  }

  const JobPlan plan = rounds(2);
  Cluster cluster(plan);
  std::atomic<int> count = 0;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string& method) {
    const int now = count++;
    if (method == calls::kCommand && now % 5 == 3) return Fault::unknown_after;
    return now % 17 == 2 ? Fault::lost_after : Fault::none;
  };
  begin(cluster, description, first);
  std::vector<std::unique_ptr<Core>> clients;
  for (const char* name : {"one", "two"}) {
    clients.push_back(cluster.client(name));
    clients.back()->join(description, {});
  }
  std::vector<std::thread> replicas;
  for (std::uint64_t r : {0, 1}) {
    replicas.emplace_back([&, r] {
      Core& client = *clients[r];
      Values weights = first, g = first;
      for (std::uint64_t step = 1; step <= kSteps; ++step) {
        client.fetch(write(weights));
        gradient_of(weights, r, step, g);
        const PushResult result = client.push(read(g), r == 0 ? 1 : 3, {step, 1}, client.fetches(),
                                              std::vector{10 * step + r});
        ASSERT_EQ(result.kind, PushResult::Kind::applied) << result.why;
      }
    });
  }
  for (std::thread& replica : replicas) replica.join();
  const Layout layout(plan, description);
  for (std::uint32_t v = 0; v < 3; ++v) EXPECT_EQ(cluster.values(layout, v), serial[v]);
  for (std::uint32_t shard : {0, 1}) {
    EXPECT_EQ(cluster.shard(shard).status().round, kSteps);
    EXPECT_EQ(cluster.shard(shard).status().ledger.count, 2 * kSteps);
  }
}

// A round is over when all of it is applied, and not when its first slice is: who fetches then gets
// nothing of the round before.
TEST(Rounds, AreOverWhenTheLastSliceIsApplied) {
  constexpr std::uint32_t kVectors = 300;
  const JobDescription description = description_of(std::vector<std::uint64_t>(kVectors, 10000));
  const Values first = values_of(description, [](auto, auto) { return 0.0F; });
  Cluster cluster(rounds(1));
  begin(cluster, description, first);
  std::vector<std::unique_ptr<Core>> clients;
  for (const char* name : {"one", "two"}) {
    clients.push_back(cluster.client(name));
    clients.back()->join(description, {});
  }
  const std::vector<float> ones(10000, 1.0F);
  std::vector<ReadView> gradient;
  for (std::uint32_t v = 0; v < kVectors; ++v) gradient.push_back({v, ones});
  std::vector<std::thread> replicas;
  for (std::uint64_t r : {0, 1}) {
    replicas.emplace_back([&, r] {
      Core& client = *clients[r];
      Values weights = first;
      for (std::uint64_t step = 1; step <= 20; ++step) {
        // The last at once: all others are behind it by then.
        const WriteView last{kVectors - 1, weights.back()};
        client.fetch(std::span(&last, 1));
        const float fetched = weights.back().back();
        client.fetch(write(weights));
        EXPECT_EQ(weights.back().back(), fetched) << step;
        const PushResult result = client.push(gradient, 1, {step, 1}, client.fetches(), {});
        if (result.kind == PushResult::Kind::applied) continue;
        ADD_FAILURE() << step << ": " << result.why;
        return client.leave();  // the other one would wait for ever
      }
    });
  }
  for (std::thread& replica : replicas) replica.join();
}

// Who has no samples of a round completes it with nothing: its mean is of the others alone.
TEST(Rounds, AreCompletedByWhoHasNothing) {
  const JobDescription description = description_of({40000, 7});
  const Values first = values_of(description, [](auto, auto) { return 1.0F; });
  const JobPlan plan = rounds(2);
  Cluster cluster(plan);
  std::atomic<int> count = 0;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string& method) {
    return method == calls::kCommand && count++ % 3 == 1 ? Fault::unknown_after : Fault::none;
  };
  begin(cluster, description, first);
  const auto one = cluster.client("one"), two = cluster.client("two");
  one->join(description, {});
  two->join(description, {});
  Values weights = first, others = first;
  const std::vector<float> gradient(40000, 0.25F), small(7, 0.25F);
  const auto push = [&](Core& client, std::uint64_t portion) {
    return client.push(std::vector<ReadView>{{0, gradient}, {1, small}}, 2, {portion, 2},
                       client.fetches(), {});
  };
  // Whoever of the two is first waits for the other.
  for (const bool nothing_first : {true, false}) {
    one->fetch(write(weights));
    two->fetch(write(others));
    const std::uint64_t portion = nothing_first ? 1 : 3;
    std::atomic<bool> over = false;
    const auto pass = [&] { return two->push({}, 0, {portion + 1, 0}, two->fetches(), {}); };
    std::thread early([&] {
      const PushResult result = nothing_first ? pass() : push(*one, portion);
      EXPECT_EQ(result.kind, PushResult::Kind::applied) << result.why;
      over = true;
    });
    std::this_thread::sleep_for(100ms);
    EXPECT_FALSE(over);
    const PushResult result = nothing_first ? push(*one, portion) : pass();
    EXPECT_EQ(result.kind, PushResult::Kind::applied) << result.why;
    early.join();
    // And both know that: what they fetch has it.
    two->fetch(write(others));
    EXPECT_EQ(others[1], std::vector<float>(7, nothing_first ? 0.75F : 0.5F));
    EXPECT_EQ(others[0], std::vector<float>(40000, nothing_first ? 0.75F : 0.5F));
  }
  for (std::uint32_t shard : {0, 1}) {
    const auto status = cluster.shard(shard).status();
    EXPECT_EQ(status.round, 2u);
    EXPECT_EQ(status.clients[0].client.samples + status.clients[1].client.samples, 4u);
    EXPECT_EQ(status.clients[1].client.progress, std::uint64_t{4} << 32);
  }
  // One that is alone completes a round of nothing, and goes on.
  cluster.forget(one->id());
  while (!one->lost()) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(two->push({}, 0, {5, 0}, two->fetches(), {}).kind, PushResult::Kind::applied);
  two->fetch(write(others));
  EXPECT_EQ(push(*two, 6).kind, PushResult::Kind::applied);
}

// Who waits in a round goes on when the other is taken for dead, and fails when the job is over.
TEST(Rounds, DoNotWaitForTheDead) {
  const JobDescription description = description_of({40000});
  const Values first = {std::vector<float>(40000, 1)};
  Cluster cluster(rounds(2));
  begin(cluster, description, first);
  const auto one = cluster.client("one"), two = cluster.client("two");
  one->join(description, {});
  two->join(description, {});
  Values there = first;
  one->fetch(write(there));
  std::thread later([&] {
    std::this_thread::sleep_for(200ms);
    cluster.forget(two->id());
  });
  EXPECT_EQ(one->push(read(first), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  later.join();
  EXPECT_EQ(cluster.shard(0).status().round, 1u);
  const auto three = cluster.client("three");
  three->join(description, {});
  one->fetch(write(there));
  std::thread end([&] {
    std::this_thread::sleep_for(200ms);
    cluster.end("enough");
  });
  EXPECT_EQ(message_of<Failure>([&] {
              one->push(read(first), 1, {1, 1}, 2, {});
            }),
            "push: the job is over: enough");
  end.join();
}

}  // namespace
}  // namespace convoy::server::client
