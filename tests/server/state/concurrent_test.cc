#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/server/state/shard.h"

namespace convoy::server {
namespace {

using namespace test;

// One thread applies pushes that add 1 to every element; others fetch, take cuts apart, save
// images.
TEST(ShardThreads, ReadWhileOneApplies) {
  constexpr std::size_t kSize = 2 * StripedVector::kStripe + 100;
  constexpr std::uint64_t kPushes = 60;
  const auto shard =
      shard_of(definition({slice("w", kSize, optim::Sgd{.lr = 1})}), std::vector<float>(kSize, 0));
  std::atomic<std::uint64_t> cut{0};  // the one that is there, or 0
  std::atomic<std::shared_ptr<const StateImage>> image{shard->image()};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {  // fetches
    std::vector<float> got(kSize);
    while (!done) {
      const std::uint64_t version =
          shard->fetch({0, 0, 0, kSize}, Encoding::f32, std::as_writable_bytes(std::span(got)));
      for (std::size_t i = 0; i < kSize; ++i) {
        // Never fewer updates than it says, and a stripe is of one version.
        ASSERT_GE(got[i], static_cast<float>(version));
        ASSERT_EQ(got[i], got[i / StripedVector::kStripe * StripedVector::kStripe]);
      }
    }
  });
  threads.emplace_back([&] {  // evaluates cuts
    while (!done) {
      const std::uint64_t id = cut;
      if (id == 0) continue;
      try {
        const auto got = cut_values(*shard, id, 0, kSize);
        const float version = static_cast<float>(id - 1);
        for (const float value : got) ASSERT_EQ(value, version);
      } catch (const UsageError&) {
        // It was dropped in between.
      }
    }
  });
  threads.emplace_back([&] {  // saves snapshots
    while (!done) {
      ShardState copy;
      const auto now = image.load();
      MemorySink sink;
      now->save(sink);
      MemorySource source(sink.bytes);
      copy.load(source);
      ASSERT_EQ(copy.applied(), now->index());
      const auto got = values(copy, 0, kSize);
      for (const float value : got) {
        ASSERT_EQ(value, static_cast<float>(copy.status().versions[0]));
      }
    }
  });
  threads.emplace_back([&] {
    while (!done) {
      const ShardStatus status = shard->status();
      ASSERT_LE(status.versions[0], kPushes);
      std::this_thread::yield();
    }
  });
  const std::vector<float> gradient(kSize, -1);
  for (std::uint64_t i = 1; i <= kPushes; ++i) {
    ASSERT_EQ(give(*shard, push(1, i, i - 1, gradient)).status, Status::done);
    if (i % 7 == 0) {
      if (cut != 0) give(*shard, drop_cut_command(cut));
      give(*shard, cut_command(i + 1));  // named for its version, + 1
      cut = i + 1;
    }
    if (i % 5 == 0) image = shard->image();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values(*shard, 0, kSize), std::vector<float>(kSize, kPushes));
}

}  // namespace
}  // namespace convoy::server
