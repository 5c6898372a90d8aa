#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "convoy/base/random.h"
#include "convoy/base/system.h"
#include "tests/base/leave_out.h"
#include "tests/base/sanitizers.h"
#include "tests/server/state/shard.h"

namespace convoy::server {
namespace {

using namespace test;

TEST(Push, IsAppliedOnce) {
  const auto shard = shard_of(definition({slice("w", 2)}), {1, 2});
  const Bytes first = push(1, 1, 0, {0.5, -1});
  const Reply reply = give(*shard, first);
  EXPECT_EQ(reply.status, Status::done);
  EXPECT_EQ(reply.sequence, 1u);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{0.5, 3}));
  EXPECT_EQ(give(*shard, first), reply);  // index and all
  EXPECT_EQ(give(*shard, push(1, 5, 1, {1, 0})).status, Status::done);
  EXPECT_EQ(give(*shard, first).status, Status::superseded);
  EXPECT_EQ(give(*shard, push(1, 0, 1, {1, 0})).status, Status::malformed);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{-0.5, 3}));
  EXPECT_EQ(shard->status().versions[0], 2u);
  EXPECT_EQ(shard->status().clients[0].client.pushes, 2u);
}

TEST(Push, OfAnotherShapeIsRefusedWhole) {
  const auto shard =
      shard_of(definition({slice("w", 3), slice("b", 2), slice("none", 2)}), {1, 2, 3});
  give(*shard, initialize(1, {5, 6}));
  const std::vector<float> three = {1, 1, 1};
  std::uint64_t sequence = 0;
  const auto status = [&](const std::vector<float>& b, std::uint32_t last, std::uint64_t version) {
    return give(*shard, push_command({1,
                                      ++sequence,
                                      1,
                                      0,
                                      {},
                                      {{0, 0, encoded(three)}, {last, version, encoded(b)}}}))
        .status;
  };
  EXPECT_EQ(status({1}, 1, 0), Status::wrong_shape);
  EXPECT_EQ(status({1, 1, 1}, 1, 0), Status::wrong_shape);  // one more than fits
  EXPECT_EQ(status({}, 1, 0), Status::wrong_shape);
  EXPECT_EQ(status({1, 1}, 3, 0), Status::wrong_shape);
  EXPECT_EQ(status({1, 1}, 2, 0), Status::not_initialized);
  EXPECT_EQ(status({1, 1}, 1, 1), Status::conflict);
  EXPECT_EQ(status({1, 1, 1}, 0, 0), Status::malformed);  // twice the same
  EXPECT_EQ(give(*shard, push(1, ++sequence, 0, three, 0)).status, Status::wrong_shape);
  EXPECT_EQ(values(*shard, 0, 3), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(values(*shard, 1, 2), (std::vector<float>{5, 6}));
  EXPECT_EQ(shard->status().clients[0].client.refused_shape, 5u);
  EXPECT_EQ(status({1, 1}, 1, 0), Status::done);
}

TEST(Push, ThatIsNotFiniteIsRefusedAndNamed) {
  const auto shard = shard_of(definition({slice("fc.weight", 3), slice("b", 1)}), {1, 2, 3});
  give(*shard, initialize(1, {5}));
  std::uint64_t sequence = 0;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const std::vector<float> good = {1};
    const std::vector<float> gradient = {0, bad, 0};
    Push push{1, ++sequence, 1, 0, {9}, {{0, 0, encoded(gradient)}, {1, 0, encoded(good)}}};
    const Reply reply = give(*shard, push_command(push));
    EXPECT_EQ(reply.status, Status::not_finite);
    EXPECT_EQ(reply.message,
              "client 1 (replica-1): slice of 'fc.weight': a value is infinite or no number");
  }
  EXPECT_EQ(values(*shard, 1, 1), (std::vector<float>{5}));
  EXPECT_EQ(shard->status().clients[0].client.refused_not_finite, 3u);
  EXPECT_EQ(shard->status().ledger, Ledger{});
}

// -0 is a number like others, and the update keeps every bit: w - lr * -0 is w, also where w is -0.
TEST(Push, OfMinusZero) {
  const auto shard = shard_of(definition({slice("w", 4)}), {0.0F, -0.0F, 1.0F, -1.0F});
  EXPECT_EQ(give(*shard, push(1, 1, 0, {-0.0F, -0.0F, -0.0F, -0.0F})).status, Status::done);
  std::vector<float> expected = {0.0F, -0.0F, 1.0F, -1.0F};
  for (float& w : expected) w -= 1.0F * -0.0F;
  const auto got = values(*shard, 0, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
  }
}

TEST(Push, WithoutSamplesOrSlices) {
  const auto shard = shard_of(definition({slice("w", 2), slice("empty", 0)}), {1, 2});
  give(*shard, initialize(1, {}));
  EXPECT_EQ(give(*shard, push_command({1, 1, 0, 0, {4}, {}})).status, Status::done);
  EXPECT_EQ(give(*shard, push_command({1, 2, 3, 0, {5}, {}})).status, Status::done);
  EXPECT_EQ(give(*shard, push(1, 3, 0, {}, 1, 1)).status, Status::done);
  EXPECT_EQ(give(*shard, push(1, 4, 1, {}, 1, 1)).status, Status::done);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{1, 2}));
  const ShardStatus status = shard->status();
  EXPECT_EQ(status.versions, (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(status.clients[0].client.samples, 5u);
  EXPECT_EQ(status.ledger, (Ledger{2, 9, 16 + 25}));
}

// Steps of Adam and Adagrad are the updates of that slice, not the pushes to the shard; large
// enough for several stripes, against the rule on plain arrays.
TEST(Push, CountsUpdatesOfEachSlice) {
  const std::size_t size = 2 * StripedVector::kStripe + 17;
  const std::vector<optim::Rule> rules = {
      optim::Adam{.lr = 0.1}, optim::Adagrad{.lr = 0.1, .lr_decay = 0.5},
      optim::Sgd{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}, optim::AdamW{.amsgrad = true},
      optim::SgdVelocity{.lr = 0.1, .momentum = 0.9}};
  for (const optim::Rule& rule : rules) {
    ShardState shard;
    give(shard, define_command(definition({slice("a", size, rule), slice("b", 1, rule)})));
    RandomStream random(7);
    std::vector<float> a(size);
    for (float& w : a) w = static_cast<float>(random.uniform() - 0.5);
    give(shard, initialize(0, a));
    give(shard, initialize(1, {0}));
    give(shard, join_command(1, ""));
    const optim::Slots slots = optim::slots(rule);
    std::vector<std::vector<float>> state;
    for (const auto& slot : slots) state.emplace_back(size, static_cast<float>(slot.initial));
    std::uint64_t sequence = 0;
    for (std::int64_t step = 1; step <= 3; ++step) {
      // Pushes that leave the slice alone, and one that is refused.
      give(shard, push(1, ++sequence, 0, {1}, 1, 1));
      give(shard, push(1, ++sequence, 0, {NAN}, 1, 1));
      std::vector<float> gradient(size);
      for (float& g : gradient) g = static_cast<float>(random.uniform() - 0.5);
      const Reply reply =
          give(shard, push(1, ++sequence, static_cast<std::uint64_t>(step - 1), gradient));
      ASSERT_EQ(reply.status, Status::done) << reply.message;
      std::vector<std::span<float>> spans(state.begin(), state.end());
      optim::update<float>(rule, step, a, gradient, spans);
    }
    EXPECT_EQ(values(shard, 0, size), a) << optim::name(rule);
    for (std::uint32_t s = 0; s < slots.size(); ++s) {
      EXPECT_EQ(values(shard, 0, size, s + 1), state[s]) << optim::name(rule);
    }
    EXPECT_EQ(shard.status().versions, (std::vector<std::uint64_t>{3, 3}));
  }
}

TEST(Push, GoesOnFromAStateThatWasSaved) {
  const optim::Adam rule{.lr = 0.1};
  const auto whole = shard_of(definition({slice("w", 2, rule)}), {1, 2});
  give(*whole, push(1, 1, 0, {1, -1}));
  const auto w = values(*whole, 0, 2);
  const auto m = values(*whole, 0, 2, 1);
  const auto v = values(*whole, 0, 2, 2);
  ShardState later;
  give(later, define_command(definition({slice("w", 2, rule)})));
  give(later, initialize_command({{0, 1, encoded(w), {encoded(m), encoded(v)}}}));
  give(later, join_command(1, ""));
  give(*whole, push(1, 2, 1, {3, 4}));
  give(later, push(1, 2, 1, {3, 4}));
  EXPECT_EQ(values(*whole, 0, 2), values(later, 0, 2));
}

TEST(Push, ReadsOtherEncodings) {
  const auto shard = shard_of(definition({slice("w", 3)}), {1, 2, 3});
  const std::vector<float> gradient = {0.5, -2, 1};
  std::uint64_t sequence = 0;
  for (const auto encoding : {Encoding::bf16, Encoding::f16}) {
    std::vector<std::byte> bytes(6);
    encode(encoding, gradient, bytes);
    Push push{1, ++sequence, 1, 0, {}, {{0, sequence - 1, EncodedValues(encoding, 3, bytes)}}};
    EXPECT_EQ(give(*shard, push_command(push)).status, Status::done);
  }
  EXPECT_EQ(values(*shard, 0, 3), (std::vector<float>{0, 6, 1}));
  const float one = 1;
  Push fill{1, 3,  1,
            0, {}, {{0, 2, EncodedValues(Encoding::fill, 3, std::as_bytes(std::span(&one, 1)))}}};
  EXPECT_EQ(give(*shard, push_command(fill)).status, Status::done);
  EXPECT_EQ(values(*shard, 0, 3), (std::vector<float>{-1, 5, 0}));
  std::vector<std::byte> room(4);
  shard->fetch({0, 0, 1, 2}, Encoding::bf16, room);
  std::vector<float> back(2);
  EncodedValues(Encoding::bf16, 2, room).decode(0, back);
  EXPECT_EQ(back, (std::vector<float>{5, 0}));
}

TEST(Staleness, IsCountedScaledAndBounded) {
  Definition stale = definition({slice("w", 1)});
  stale.staleness_bound = 3;
  stale.scale_by_staleness = true;
  const auto shard = shard_of(stale, {0});
  // 0, 1, 2, 3 versions old: a rate of 1, 1, 1/2, 1/3.
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) {
    const Reply reply = give(*shard, push(1, sequence, 0, {6}));
    EXPECT_EQ(reply.status, Status::done);
    EXPECT_EQ(reply.staleness, sequence - 1);
  }
  EXPECT_FLOAT_EQ(values(*shard, 0, 1)[0], -6 - 6 - 3 - 2);
  const Reply refused = give(*shard, push(1, 5, 0, {6}));
  EXPECT_EQ(refused.status, Status::fetch_again);
  EXPECT_EQ(refused.message, "client 1 (replica-1): 4 versions have passed, 3 may: fetch again");
  EXPECT_EQ(give(*shard, push(1, 6, 1, {6})).status, Status::done);
  const ShardStatus status = shard->status();
  EXPECT_EQ(status.clients[0].client.refused_stale, 1u);
  EXPECT_EQ(status.staleness.pushes[3], 2u);
  EXPECT_EQ(status.staleness.pushes[4], 0u);
}

TEST(Staleness, HistogramEntries) {
  EXPECT_EQ(StalenessHistogram::entry(0), 0u);
  EXPECT_EQ(StalenessHistogram::entry(15), 15u);
  EXPECT_EQ(StalenessHistogram::entry(16), 16u);
  EXPECT_EQ(StalenessHistogram::entry(31), 16u);
  EXPECT_EQ(StalenessHistogram::entry(32), 17u);
  EXPECT_EQ(StalenessHistogram::entry(~std::uint64_t{0}), StalenessHistogram::kEntries - 1);
}

TEST(Statistics, MoveByTheMeanOfWhatMembersSay) {
  const auto shard = shard_of(definition({slice("mean", 2, std::nullopt)}), {10, 20});
  EXPECT_EQ(give(*shard, push(1, 1, 0, {1, -2})).status, Status::done);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{11, 18}));
  give(*shard, join_command(2, ""));
  EXPECT_EQ(give(*shard, push(2, 1, 0, {1, -2})).status, Status::done);
  EXPECT_EQ(values(*shard, 0, 2), (std::vector<float>{11.5, 17}));
}

// Others of its replica have other slices; and who has yet to push, or has left, doesn't count.
TEST(Statistics, MoveByTheMeanOfThoseWhoPushThem) {
  auto shard = shard_of(
      definition({slice("mean", 1, std::nullopt), slice("variance", 1, std::nullopt)}), {10});
  give(*shard, initialize(1, {10}));
  give(*shard, join_command(2, ""));
  give(*shard, join_command(3, ""));
  give(*shard, push(1, 1, 0, {1}));
  give(*shard, push(2, 1, 0, {1}, 1, 1));
  EXPECT_EQ(values(*shard, 0, 1), std::vector<float>{11});
  EXPECT_EQ(values(*shard, 1, 1), std::vector<float>{11});
  const Bytes bytes = saved(*shard);
  auto loaded = std::make_unique<ShardState>();
  MemorySource source(bytes);
  loaded->load(source);
  EXPECT_EQ(saved(*loaded), bytes);
  shard = std::move(loaded);
  give(*shard, push(3, 1, 0, {1}));
  EXPECT_EQ(values(*shard, 0, 1), std::vector<float>{11.5});
  give(*shard, leave_command(1));
  give(*shard, push(3, 2, 1, {1}));
  EXPECT_EQ(values(*shard, 0, 1), std::vector<float>{12.5});
  give(*shard, push(2, 2, 1, {1}, 1, 1));
  EXPECT_EQ(values(*shard, 1, 1), std::vector<float>{12});
}

// A slice of more than 2 GiB: no size or place of it fits 31 or 32 bits of bytes.
TEST(Push, OfMoreThanTwoGibibytes) {
  if (convoy::test::kSanitized) GTEST_SKIP() << "takes too long with sanitizers";
  if (available_memory() < std::uint64_t{6} << 30) LEAVE_OUT("it takes 3 GiB of memory");
  const std::uint64_t size = (std::uint64_t{1} << 29) + 3;
  const float one = 1;
  const EncodedValues ones(Encoding::fill, size, std::as_bytes(std::span(&one, 1)));
  ShardState shard;
  ASSERT_EQ(give(shard, define_command(definition({slice("w", size)}))).status, Status::done);
  ASSERT_EQ(give(shard, initialize_command({{0, 0, ones, {}}})).status, Status::done);
  give(shard, join_command(1, ""));
  ASSERT_EQ(give(shard, push_command({1, 1, 1, 0, {}, {{0, 0, ones}}})).status, Status::done);
  std::vector<float> end(3);
  EXPECT_EQ(shard.fetch({0, 0, size - 3, 3}, Encoding::f32, std::as_writable_bytes(std::span(end))),
            1u);
  EXPECT_EQ(end, (std::vector<float>{0, 0, 0}));
  const EncodedValues more(Encoding::fill, size + 1, std::as_bytes(std::span(&one, 1)));
  EXPECT_EQ(give(shard, push_command({1, 2, 1, 0, {}, {{0, 1, more}}})).status,
            Status::wrong_shape);
}

// By threads that share the stripes of a large update.
TEST(Push, UpdatesInPartsAreTheSame) {
  constexpr std::uint64_t kSize = 12 * StripedVector::kStripe + 77;
  std::vector<float> start(kSize), gradient(kSize);
  for (std::size_t i = 0; i < kSize; ++i) {
    start[i] = static_cast<float>(i % 1000);
    gradient[i] = static_cast<float>(i % 77) - 30;
  }
  for (const std::uint64_t bound : {kUnbounded, std::uint64_t{0}}) {
    Bytes states[2];
    for (const bool parts : {false, true}) {
      ShardState shard;
      std::atomic<int> calls = 0;
      if (parts) {
        shard.use(3, [&](std::size_t count, const ShardState::Part& part) {
          std::vector<std::thread> threads;
          for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { part(i); });
          for (std::thread& thread : threads) thread.join();
          calls += static_cast<int>(count);
        });
      }
      Definition two = definition(
          {slice("a", kSize, optim::Adagrad{.lr = 0.1}), slice("s", kSize, std::nullopt)});
      two.staleness_bound = bound;
      EXPECT_EQ(give(shard, define_command(two)).status, Status::done);
      for (const std::uint32_t i : {0, 1}) {
        EXPECT_EQ(give(shard, initialize(i, start)).status, Status::done);
      }
      for (const std::uint64_t client : {1, 2}) give(shard, join_command(client, ""));
      for (const std::uint64_t client : {1, 2}) {
        Push push;
        push.client = client;
        push.sequence = 1;
        push.samples = client;
        push.slices = {{0, 0, encoded(gradient)}, {1, 0, encoded(start)}};
        give(shard, push_command(push));
      }
      EXPECT_EQ(shard.status().versions[0], bound == 0 ? 1u : 2u);
      EXPECT_EQ(calls > 0, parts);
      // Refused by whichever part finds it.
      for (const std::size_t bad :
           {std::size_t{0}, std::size_t{kSize / 2}, std::size_t{kSize - 1}}) {
        std::vector<float> infinite = gradient;
        infinite[bad] = std::numeric_limits<float>::infinity();
        EXPECT_EQ(give(shard, push(1, 2 + bad, 1, infinite)).status, Status::not_finite);
      }
      states[parts ? 1 : 0] = saved(shard);
    }
    EXPECT_TRUE(states[0] == states[1]);
  }
}

}  // namespace
}  // namespace convoy::server
