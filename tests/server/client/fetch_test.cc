// Values come into the caller's memory, and only those that have changed.
#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "tests/server/client/cluster.h"

namespace convoy::server::client {
namespace {

using namespace test;
using convoy::test::message_of;

class FetchTest : public testing::Test {
 protected:
  // Of which some are divided among shards, and one is fetched in several pieces.
  const JobDescription description =
      description_of({3, 1300000, 0, 50000, 7}, optim::Adam{.lr = 1});
  const Values first = values_of(description, [](auto v, auto i) {
    return static_cast<float>(v) + static_cast<float>(i % 1001) / 3;
  });
  const JobPlan plan = plan_of(3);
  Cluster cluster{plan};
  const Layout layout{plan, description};

  FetchTest() { begin(cluster, description, first); }
  Values room() const {
    return values_of(description, [](auto, auto) { return -1.0F; });
  }
};

TEST_F(FetchTest, FillsViews) {
  const auto client = cluster.client("observer");
  Values there = room();
  EXPECT_EQ(client->fetches(), 0u);
  client->fetch(write(there));
  EXPECT_EQ(there, first);
  EXPECT_EQ(client->fetches(), 1u);
  const ClientTraffic traffic = client->traffic();
  EXPECT_EQ(traffic.fetches, 1u);
  EXPECT_EQ(traffic.fetched_bytes, traffic.fetched_by_shard[0] + traffic.fetched_by_shard[1] +
                                       traffic.fetched_by_shard[2]);
  EXPECT_GE(traffic.fetched_bytes, 4u * 1350010);
  // Some of them.
  Values some = room();
  client->fetch(std::vector<WriteView>{{3, some[3]}});
  EXPECT_EQ(some[3], first[3]);
  EXPECT_EQ(some[0], (std::vector<float>{-1, -1, -1}));
}

TEST_F(FetchTest, SendsWhatHasChanged) {
  const auto client = cluster.client("replica");
  client->join(description, {});
  Values there = room();
  client->fetch(write(there));
  const std::uint64_t all = client->traffic().fetched_bytes;
  there[0][0] = 99;  // as if it had not been sent
  client->fetch(write(there));
  EXPECT_LT(client->traffic().fetched_bytes, all + 1000);
  EXPECT_EQ(there[0][0], 99);
  // Into other memory everything is sent.
  Values other = room();
  client->fetch(write(other));
  EXPECT_EQ(other, first);
  const std::uint64_t before = client->traffic().fetched_bytes;
  EXPECT_GE(before, 2 * all);
  // One vector changes.
  const std::vector<float> g(50000, 1);
  ASSERT_EQ(client->push(std::vector<ReadView>{{3, g}}, 1, {1, 1}, 3, {}).kind,
            PushResult::Kind::applied);
  client->fetch(write(other));
  EXPECT_EQ(other[3], cluster.values(layout, 3));
  EXPECT_NE(other[3], first[3]);
  const std::uint64_t sent = client->traffic().fetched_bytes - before;
  EXPECT_GE(sent, 4u * 50000);
  EXPECT_LT(sent, 4u * 50000 + 1000);
  // What failed half-way is sent again.
  std::atomic<bool> fails = true;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string&) {
    return fails ? Fault::refused : Fault::none;
  };
  const auto next = cluster.client("next");
  fails = false;
  next->fetch(write(there));
  EXPECT_EQ(there[0], first[0]);
  fails = true;
  EXPECT_THROW(next->fetch(write(there)), Failure);
  fails = false;
  there[0][0] = 99;
  next->fetch(write(there));
  EXPECT_EQ(there[0], first[0]);
  EXPECT_EQ(next->fetches(), 2u);
}

TEST_F(FetchTest, IsRepeatedWhenAnswersAreLost) {
  const auto client = cluster.client("observer");
  std::atomic<int> count = 0;
  cluster.fault = [&](std::uint64_t, std::uint32_t, const std::string&) {
    switch (count++ % 5) {
      case 1:
        return Fault::lost_after;
      case 2:
        return Fault::busy;
      case 3:
        return Fault::failed;
      default:
        return Fault::none;
    }
  };
  Values there = room();
  client->fetch(write(there));
  EXPECT_EQ(there, first);
}

TEST_F(FetchTest, IsRoundedAsTheWireSays) {
  for (const Wire wire : {Wire::bf16, Wire::f16}) {
    ClientOptions options = cluster.options("observer");
    options.fetch = wire;
    const auto client = cluster.client(options);
    Values there = room();
    client->fetch(write(there));
    Values rounded = first;
    for (auto& vector : rounded) {
      Bytes bytes(2 * vector.size());
      encode(encoding_of(wire), vector, bytes);
      EncodedValues(encoding_of(wire), vector.size(), bytes).decode(0, vector);
    }
    EXPECT_EQ(there, rounded);
    EXPECT_NE(there, first);
    EXPECT_LT(client->traffic().fetched_bytes, 3u * 1350010);
    // A checkpoint is exact all the same.
    const server::Cut cut = client->cut();
    client->fetch_cut(cut, 0, write(there));
    EXPECT_EQ(there, first);
    client->drop_cut(cut);
  }
}

TEST_F(FetchTest, ReadsCutsAndSlots) {
  const auto client = cluster.client("replica");
  client->join(description, {});
  Values there = room();
  client->fetch(write(there));
  const Values g = values_of(description, [](auto, auto) { return 2.0F; });
  ASSERT_EQ(client->push(read(g), 1, {1, 1}, 1, {}).kind, PushResult::Kind::applied);
  const auto evaluator = cluster.client("evaluator");
  const server::Cut cut = evaluator->cut();
  EXPECT_EQ(cut.version, 1u);
  const std::vector<float> then = cluster.values(layout, 1);
  ASSERT_EQ(client->push(read(g), 1, {1, 2}, 1, {}).kind, PushResult::Kind::applied);
  Values cut_values = room();
  evaluator->fetch_cut(cut, 0, write(cut_values));
  EXPECT_EQ(cut_values[1], then);
  EXPECT_NE(cluster.values(layout, 1), then);
  evaluator->fetch_cut(cut, 1, write(cut_values));
  EXPECT_FLOAT_EQ(cut_values[1][5], 0.2F);  // exp_avg
  const std::string why =
      message_of<UsageError>([&] { evaluator->fetch_cut(cut, 3, write(cut_values)); });
  EXPECT_EQ(why, "slot 2 of 'w0': its rule has 2 slots");
  evaluator->drop_cut(cut);
  EXPECT_TRUE(cluster.shard(0).status().cuts.empty());
  EXPECT_THROW(evaluator->fetch_cut(cut, 0, write(cut_values)), Failure);
}

TEST_F(FetchTest, OfAnotherShapeIsAMistake) {
  const auto client = cluster.client("observer");
  Values there = room();
  there[0].pop_back();
  EXPECT_EQ(message_of<UsageError>([&] { client->fetch(write(there)); }),
            "2 values for vector 'w0'; it has 3 elements");
}

}  // namespace
}  // namespace convoy::server::client
