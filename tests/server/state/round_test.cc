// A staleness bound of 0: synchronous SGD in rounds.
#include <gtest/gtest.h>

#include "convoy/base/random.h"
#include "tests/server/state/shard.h"

namespace convoy::server {
namespace {

using namespace test;

std::unique_ptr<ShardState> round_shard(std::vector<SliceDefinition> slices,
                                        const std::vector<float>& values) {
  Definition rounds = definition(std::move(slices));
  rounds.staleness_bound = 0;
  auto shard = shard_of(rounds, values);
  give(*shard, join_command(2, "replica-2"));
  return shard;
}

TEST(Round, AppliesTheMeanBySamplesOnce) {
  const auto shard = round_shard({slice("w", 2)}, {0, 0});
  const Bytes second = push(2, 1, 0, {4, 0}, 3, 0, {20});
  const Reply collected = give(*shard, second);
  EXPECT_EQ(collected.status, Status::collected);
  EXPECT_EQ(collected.round, 0u);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{0, 0}));
  EXPECT_EQ(shard->status().ledger.count, 0u);
  EXPECT_EQ(give(*shard, second), collected);
  EXPECT_EQ(give(*shard, push(2, 2, 0, {4, 0}, 3)).status, Status::fetch_again);
  const Reply done = give(*shard, push(1, 1, 0, {0, 8}, 1, 0, {10}));
  EXPECT_EQ(done.status, Status::done);
  EXPECT_EQ(done.round, 1u);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{-3, -2}));
  EXPECT_EQ(shard->status().versions[0], 1u);
  EXPECT_EQ(shard->status().ledger, (Ledger{2, 30, 500}));
  EXPECT_EQ(give(*shard, second).status, Status::superseded);
  EXPECT_EQ(give(*shard, push(2, 3, 0, {4, 0}, 3)).status, Status::fetch_again);
  EXPECT_EQ(give(*shard, push(2, 4, 1, {4, 0}, 3)).status, Status::collected);
}

// The sum's order is that of clients, whoever comes first; one rule's step for all of them.
TEST(Round, DoesNotDependOnWhoComesFirst) {
  const std::size_t size = StripedVector::kStripe + 3;
  RandomStream random(3);
  std::vector<std::vector<float>> gradients(3, std::vector<float>(size));
  for (auto& gradient : gradients) {
    for (float& g : gradient) g = static_cast<float>(random.uniform() - 0.3);
  }
  std::vector<std::vector<float>> results;
  for (const std::vector<std::uint64_t>& order :
       std::vector<std::vector<std::uint64_t>>{{1, 2, 3}, {3, 1, 2}, {2, 3, 1}}) {
    const auto shard =
        round_shard({slice("w", size, optim::Adam{.lr = 0.1})}, std::vector<float>(size, 1));
    give(*shard, join_command(3, ""));
    for (std::uint64_t round = 0; round < 2; ++round) {
      for (const std::uint64_t client : order) {
        give(*shard, push(client, round + 1, round, gradients[client - 1], client));
      }
    }
    EXPECT_EQ(shard->status().round, 2u);
    results.push_back(values(*shard, 0, size));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  std::vector<float> w(size, 1), mean(size), m(size), v(size);
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      mean[i] += static_cast<float>((c + 1) / 6.0) * gradients[c][i];
    }
  }
  const std::vector<std::span<float>> state = {m, v};
  for (const std::int64_t step : {1, 2}) {
    optim::update<float>(optim::Adam{.lr = 0.1}, step, w, mean, state);
  }
  EXPECT_EQ(results[0], w);
}

TEST(Round, OfOneIsExact) {
  const auto alone = shard_of(definition({slice("w", 3, optim::Adagrad{})}), {1, -0.0F, 3});
  const auto rounds = round_shard({slice("w", 3, optim::Adagrad{})}, {1, -0.0F, 3});
  give(*rounds, leave_command(2));
  for (const auto& shard : {alone.get(), rounds.get()}) {
    EXPECT_EQ(give(*shard, push(1, 1, 0, {0.1F, -0.0F, 0.3F}, 7)).status, Status::done);
  }
  const auto a = values(*alone, 0, 3);
  const auto b = values(*rounds, 0, 3);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), 12), 0);
}

TEST(Round, GoesOnWhenSomebodyLeaves) {
  const auto shard = round_shard({slice("w", 1)}, {0});
  EXPECT_EQ(give(*shard, push(1, 1, 0, {2})).status, Status::collected);
  EXPECT_EQ(give(*shard, leave_command(2)).round, 1u);
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-2}));
  // One that leaves after its push was acknowledged is in the round all the same.
  give(*shard, join_command(2, ""));
  EXPECT_EQ(give(*shard, push(2, 1, 1, {4})).status, Status::collected);
  EXPECT_EQ(give(*shard, leave_command(2)).round, 1u);
  give(*shard, forget_command(2));
  EXPECT_EQ(give(*shard, push(1, 2, 1, {2})).round, 2u);
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-5}));
  // And when all have left.
  give(*shard, join_command(3, ""));
  EXPECT_EQ(give(*shard, push(3, 1, 2, {1})).status, Status::collected);
  EXPECT_EQ(give(*shard, leave_command(3)).round, 2u);
  EXPECT_EQ(give(*shard, leave_command(1)).round, 3u);
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-6}));
}

TEST(Round, OneThatJoinsIsWaitedFor) {
  const auto shard = round_shard({slice("w", 1)}, {0});
  EXPECT_EQ(give(*shard, push(1, 1, 0, {2})).status, Status::collected);
  give(*shard, join_command(3, ""));
  EXPECT_EQ(give(*shard, push(2, 1, 0, {2})).status, Status::collected);
  EXPECT_EQ(give(*shard, push(3, 1, 0, {2})).status, Status::done);
}

// Each slice has the mean of those who pushed it: the partitions of a model don't have the same.
TEST(Round, SlicesThatOnlySomePush) {
  const auto shard =
      round_shard({slice("a", 1), slice("b", 1), slice("mean", 1, std::nullopt)}, {0});
  give(*shard, initialize(1, {0}));
  give(*shard, initialize(2, {10}));
  const std::vector<float> four = {4};
  const std::vector<float> two = {2};
  EXPECT_EQ(
      give(*shard, push_command({1, 1, 1, 0, {}, {{0, 0, encoded(four)}, {2, 0, encoded(four)}}}))
          .status,
      Status::collected);
  EXPECT_EQ(
      give(*shard, push_command({2, 1, 3, 0, {}, {{1, 0, encoded(two)}, {2, 0, encoded(two)}}}))
          .status,
      Status::done);
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-4}));
  EXPECT_EQ(values(*shard, 1, 1), (std::vector<float>{-2}));
  EXPECT_EQ(values(*shard, 2, 1), (std::vector<float>{12.5}));
}

TEST(Round, WithoutSamples) {
  const auto shard = round_shard({slice("w", 1)}, {0});
  EXPECT_EQ(give(*shard, push(1, 1, 0, {2}, 1)).status, Status::collected);
  EXPECT_EQ(give(*shard, push_command({2, 1, 0, 0, {}, {}})).status, Status::done);
  EXPECT_EQ(values(*shard, 0, 1), (std::vector<float>{-2}));
  EXPECT_EQ(give(*shard, push_command({1, 2, 0, 0, {}, {}})).status, Status::collected);
  EXPECT_EQ(give(*shard, push_command({2, 2, 0, 0, {}, {}})).round, 2u);
  EXPECT_EQ(shard->status().versions[0], 1u);
}

// What waits is not in the values of a cut, but whoever goes on for the client has to count it.
TEST(Round, ProgressOfWhatWaits) {
  const auto shard = round_shard({slice("w", 1)}, {0});
  give(*shard, push(1, 1, 0, {1}, 1, 0, {}, 10));
  give(*shard, push(2, 1, 0, {1}, 1, 0, {}, 20));
  give(*shard, push(1, 2, 1, {1}, 1, 0, {}, 11));
  give(*shard, cut_command(1));
  EXPECT_EQ(shard->last_pushes(1), (LastPushes{{1, 2, 10}, {2, 1, 20}}));
  EXPECT_EQ(read_progress(give(*shard, leave_command(1))), 11u);
  EXPECT_EQ(shard->status().clients[0].client.applied_progress, 10u);
  give(*shard, push(2, 2, 1, {1}, 1, 0, {}, 21));
  give(*shard, cut_command(2));
  EXPECT_EQ(shard->last_pushes(2), (LastPushes{{1, 2, 11}, {2, 2, 21}}));
}

}  // namespace
}  // namespace convoy::server
