#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/server/state/shard.h"

namespace convoy::server {
namespace {

using namespace test;

constexpr std::size_t kSize = StripedVector::kStripe * 2 + 5;

// A shard with something in each part of its state.
std::unique_ptr<ShardState> full_shard() {
  Definition rounds = definition({slice("w", kSize, optim::Adam{.lr = 0.1}),
                                  slice("mean", 3, std::nullopt), slice("unset", 4)});
  rounds.staleness_bound = 0;
  auto shard = shard_of(rounds, std::vector<float>(kSize, 1));
  give(*shard, initialize(1, {1, 2, 3}));
  give(*shard, set_rates_command(4, {{0, 0.25}}));
  give(*shard, push(1, 1, 0, std::vector<float>(kSize, 0.5), 2, 0, {7}, 70));
  give(*shard, join_command(2, "replica-2"));
  give(*shard, cut_command(11));
  give(*shard, push(1, 2, 1, std::vector<float>(kSize, 0.25), 2, 0, {8}));
  give(*shard, push(2, 1, 1, std::vector<float>(kSize, NAN)));
  give(*shard, push(2, 2, 1, std::vector<float>(kSize, 0.75), 6, 0, {9}));
  give(*shard, push(2, 3, 2, std::vector<float>(kSize, 0.1F), 1, 0, {10}, 71));  // waits
  give(*shard, join_command(3, "third"));
  give(*shard, leave_command(3));
  return shard;
}

void load(StateMachine& machine, std::span<const std::byte> bytes) {
  MemorySource source(bytes);
  machine.load(source);
  EXPECT_TRUE(source.left.empty());
}

TEST(Image, LoadsTheSameState) {
  const auto shard = full_shard();
  const Bytes bytes = saved(*shard);
  ShardState copy;
  give(copy, join_command(99, "gone after load"));
  load(copy, bytes);
  EXPECT_EQ(saved(copy), bytes);
  EXPECT_EQ(copy.applied(), shard->applied());
  EXPECT_EQ(copy.definition(), shard->definition());
  EXPECT_EQ(copy.status().ledger, shard->status().ledger);
  const auto clients = copy.status().clients;
  EXPECT_EQ(clients[1].client.progress, 71u);
  EXPECT_EQ(clients[1].client.applied_progress, 0u);
  EXPECT_EQ(copy.last_pushes(11), shard->last_pushes(11));
  EXPECT_EQ(copy.last_pushes(11), (LastPushes{{1, 1, 70}, {2, 0, 0}}));
  EXPECT_EQ(cut_values(copy, 11, 0, kSize), cut_values(*shard, 11, 0, kSize));
  // And goes on in the same way: a repeated push, the round that waits, a cut that is dropped.
  for (const Bytes& command :
       {push(2, 3, 2, std::vector<float>(kSize, 0.1F), 1, 0, {10}),
        push(1, 3, 2, std::vector<float>(kSize, 0.2F), 5, 0, {11}), drop_cut_command(11),
        cut_command(12), push(1, 4, 3, std::vector<float>(kSize, 0.3F))}) {
    EXPECT_EQ(give(copy, command), give(*shard, command));
    EXPECT_EQ(saved(copy), saved(*shard));
  }
  EXPECT_EQ(shard->status().ledger.count, 5u);
}

TEST(Image, StaysWhileTheMachineGoesOn) {
  const auto shard = full_shard();
  const Bytes before = saved(*shard);
  const auto image = shard->image();
  EXPECT_EQ(image->index(), shard->applied());
  give(*shard, push(1, 3, 2, std::vector<float>(kSize, 0.2F)));
  give(*shard, drop_cut_command(11));
  MemorySink sink;
  image->save(sink);
  EXPECT_EQ(sink.bytes, before);
  EXPECT_NE(saved(*shard), before);
}

// What a cut has in common with the state is saved once.
TEST(Image, SharesWhatACutHasNotLost) {
  const auto shard = shard_of(definition({slice("w", kSize)}), std::vector<float>(kSize, 1));
  const std::size_t without = saved(*shard).size();
  give(*shard, cut_command(1));
  EXPECT_LT(saved(*shard).size(), without + 100);
  give(*shard, push(1, 1, 0, std::vector<float>(kSize, 1)));
  EXPECT_GT(saved(*shard).size(), without + kSize * sizeof(float));
  ShardState copy;
  load(copy, saved(*shard));
  EXPECT_EQ(cut_values(copy, 1, 0, kSize), std::vector<float>(kSize, 1));
  EXPECT_EQ(values(copy, 0, kSize), std::vector<float>(kSize, 0));
}

TEST(Image, OfNothing) {
  ShardState empty;
  ShardState copy;
  load(copy, saved(empty));
  EXPECT_EQ(copy.applied(), 0u);
  EXPECT_EQ(give(copy, join_command(1, "")).status, Status::done);
}

TEST(Image, ThatIsCutShortChangesNothing) {
  const auto shard = full_shard();
  const Bytes bytes = saved(*shard);
  const auto copy = shard_of(definition({slice("other", 1)}), {5});
  const Bytes before = saved(*copy);
  for (const std::size_t size : {0ul, 5ul, 100ul, 1000ul, bytes.size() / 2, bytes.size() - 1}) {
    MemorySource source(std::span(bytes).first(size));
    EXPECT_ANY_THROW(copy->load(source)) << size;
    EXPECT_EQ(saved(*copy), before);
  }
  ShardState small(1000);
  MemorySource source(bytes);
  EXPECT_THROW(small.load(source), UsageError);
}

}  // namespace
}  // namespace convoy::server
