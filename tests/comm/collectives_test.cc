// Every collective over ranks that are threads.
#include <gtest/gtest.h>

#include "comm/collectives/allreduce/allreduce.h"
#include "comm/collectives/alltoallv/alltoallv.h"
#include "comm/engine/engine.h"
#include "convoy/base/error.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/reference.h"

namespace convoy::comm {
namespace {

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5, 7, 8, 9));

TEST_P(Collectives, GiveWhatASerialProgramComputes) {
  World::run_threads(GetParam(), [](World& world) { check_all_collectives(world.communicator()); });
}

TEST_P(Collectives, GiveTheSameWithCheckedCalls) {
  WorldOptions options;
  options.check_calls = true;
  World::run_threads(
      GetParam(), [](World& world) { check_all_collectives(world.communicator()); }, options);
}

TEST_P(Collectives, MatchByKeyInAnyOrder) {
  for (Progress progress : {Progress::caller, Progress::thread}) {
    WorldOptions options;
    options.progress = progress;
    World::run_threads(
        GetParam(), [](World& world) { check_matching(world.communicator()); }, options);
  }
}

TEST_P(Collectives, WorkOnPartsOfTheWorld) {
  World::run_threads(GetParam(), [](World& world) {
    const Communicator& all = world.communicator();
    const Communicator half = all.split(all.rank() % 2, -all.rank());  // in reverse order
    check_all_collectives(half);
    EXPECT_EQ(half.size(), (all.size() + 1 - all.rank() % 2) / 2);
    EXPECT_EQ(half.rank(), half.size() - 1 - all.rank() / 2);
    // Both at once, with equal Match values.
    std::vector<float> a(30'000, 1), b(30'000, 1);
    Operation first = all.start_allreduce(buffer_of(a), ReduceOp::sum);
    half.allreduce(buffer_of(b), ReduceOp::sum);
    first.wait();
    EXPECT_EQ(a.back(), static_cast<float>(all.size()));
    EXPECT_EQ(b.back(), static_cast<float>(half.size()));
    const Communicator none = all.split(all.rank() == 0 ? -1 : 0);
    EXPECT_EQ(none.valid(), all.rank() != 0);
    const Communicator again = all.duplicate();
    EXPECT_EQ(again.rank(), all.rank());
    check_matching(again);
  });
}

TEST_P(Collectives, GatherAValueOfEveryRank) {
  struct Value {
    double number = 7;  // not what others have there, either
    std::int16_t rank = 7;
  };
  World::run_threads(GetParam(), [](World& world) {
    const Communicator& all = world.communicator();
    const auto values =
        all.gather(Value{-1.5 / (all.rank() + 1), static_cast<std::int16_t>(-all.rank())});
    const auto ranks = all.gather(all.rank(), {3, 4});
    ASSERT_EQ(values.size(), static_cast<std::size_t>(all.size()));
    ASSERT_EQ(ranks.size(), values.size());
    for (int r = 0; r < all.size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      EXPECT_EQ(ranks[i], r);
      EXPECT_EQ(values[i].number, -1.5 / (r + 1));
      EXPECT_EQ(values[i].rank, -r);
    }
  });
}

using Algorithm = std::function<Task(Io&, Buffer, ReduceOp)>;

TEST_P(Collectives, EveryAllreduceAlgorithmGivesTheSameBitsOnEveryRank) {
  const std::vector<Algorithm> algorithms{
      &allreduce_naive,
      &allreduce_recursive_doubling,
      [](Io& io, Buffer data, ReduceOp op) { return allreduce_ring(io, data, op); },
      [](Io& io, Buffer data, ReduceOp op) { return allreduce_ring_rsag(io, data, op); },
      [](Io& io, Buffer data, ReduceOp op) { return allreduce_multicolor(io, data, op, 4); },
      [](Io& io, Buffer data, ReduceOp op) {
        return allreduce_multicolor(io, data, op, io.size());
      }};
  for (const Algorithm& algorithm : algorithms) {
    for (std::size_t count : {1, 2, 10, 4097, 300'000}) {
      if (count == 300'000 && GetParam() > 3) continue;  // several segments per slice, once
      auto transports = thread_transports(GetParam());
      std::vector<std::vector<float>> results(transports.size());
      std::vector<std::thread> threads;
      for (std::size_t rank = 0; rank < transports.size(); ++rank) {
        threads.emplace_back([&, rank] {
          std::shared_ptr<Transport> transport = std::move(transports[rank]);
          const auto engine = std::make_shared<Engine>(transport, Engine::Options{});
          RandomStream random(1, rank, count);
          std::vector<float>& data = results[rank];
          for (std::size_t i = 0; i < count; ++i)
            data.push_back(static_cast<float>(random.uniform() - 0.5));
          const auto op = engine->start(transport, Call{}, [&](Io& io) {
            return algorithm(io, Buffer(std::span(data)), ReduceOp::sum);
          });
          engine->wait(*op);
        });
      }
      for (auto& thread : threads) thread.join();
      std::vector<double> exact(count, 0.0);
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        RandomStream random(1, rank, count);
        for (double& value : exact) value += static_cast<float>(random.uniform() - 0.5);
      }
      for (std::size_t rank = 1; rank < results.size(); ++rank)
        ASSERT_EQ(results[rank], results[0]);
      // p additions of numbers below 0.5: p/2 ulps of the largest partial sum
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(results[0][i], exact[i], 1e-6 * GetParam());
    }
  }
}

TEST(Collectives16Bit, SumInF32AndRoundOnce) {
  World::run_threads(2, [](World& world) {
    // 256 + 1 is not a bf16: each hop rounds to nearest even.
    std::vector<std::uint16_t> data(40'000, world.rank() == 0 ? 0x4380 : 0x3f80);
    world.communicator().allreduce(Buffer(data.data(), data.size(), Type::bf16), ReduceOp::sum);
    EXPECT_EQ(data[0], 0x4380);
    std::vector<std::uint16_t> half(5, world.rank() == 0 ? 0x3c00 : 0x4000);  // 1 + 2, f16
    world.communicator().allreduce(Buffer(half.data(), half.size(), Type::f16), ReduceOp::average);
    EXPECT_EQ(half[0], 0x3e00);  // 1.5
  });
}

TEST(PointToPoint, CarriesMessagesByKey) {
  World::run_threads(2, [](World& world) {
    const auto& comm = world.communicator();
    std::vector<int> one{1}, two{2}, got(1);
    if (comm.rank() == 0) {
      Operation a = comm.start_send(buffer_of(one), 1, {0, 1});
      Operation b = comm.start_send(buffer_of(two), 1, {0, 2});
      a.wait();
      b.wait();
    } else {
      comm.receive(buffer_of(got), 0, {0, 2});
      EXPECT_EQ(got[0], 2);
      comm.receive(buffer_of(got), 0, {0, 1});
      EXPECT_EQ(got[0], 1);
    }
  });
}

TEST(Traffic, IsWhatTheContractSays) {
  World::run_threads(4, [](World& world) {
    std::vector<float> data(1 << 20, 1);
    const auto sent = [&](const Communicator& comm) {
      const Traffic before = comm.traffic();
      comm.allreduce(buffer_of(data), ReduceOp::sum);
      EXPECT_EQ(comm.traffic().bytes_sent - before.bytes_sent,
                comm.traffic().bytes_received - before.bytes_received);
      return comm.traffic().bytes_sent - before.bytes_sent;
    };
    // Each rank on a host of its own: a ring, and the comparison of calls with both neighbors'.
    EXPECT_EQ(sent(on_hosts(world.communicator(), 1)), 2 * (4u << 20) * 3 / 4 + 2 * sizeof(Call));
    EXPECT_EQ(sent(world.communicator()), 0) << "shared memory";
  });
}

// Parts of many segments, and some of none, from which two exchanges at a time are made: each byte
// says where it comes from, and for whom.
void check_large_parts(const Communicator& comm, std::size_t unit) {
  const int p = comm.size(), r = comm.rank();
  const auto amount = [unit](int from, int to) {
    return static_cast<std::size_t>((from * 7 + to * 3) % 4) * unit +
           static_cast<std::size_t>((from + to) % 3);
  };
  const auto part = [&](int from, int to, int exchange) {
    std::vector<std::uint8_t> bytes(amount(from, to));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(i * 31 + i / 251 +
                                           static_cast<std::size_t>(from * 5 + to * 3 + exchange));
    return bytes;
  };
  std::vector<std::size_t> out, in;
  std::vector<std::uint8_t> sent[2], want[2], got[2];
  for (int q = 0; q < p; ++q) {
    out.push_back(amount(r, q));
    in.push_back(amount(q, r));
    for (int e = 0; e < 2; ++e) {
      const auto mine = part(r, q, e), theirs = part(q, r, e);
      sent[e].insert(sent[e].end(), mine.begin(), mine.end());
      want[e].insert(want[e].end(), theirs.begin(), theirs.end());
    }
  }
  std::vector<Operation> operations;
  for (std::uint16_t e = 0; e < 2; ++e) {
    got[e].resize(want[e].size());
    operations.push_back(
        comm.start_alltoallv(buffer_of(sent[e]), out, buffer_of(got[e]), in, {.key = e}));
  }
  for (Operation& operation : operations) operation.wait();
  for (int e = 0; e < 2; ++e) EXPECT_TRUE(got[e] == want[e]) << "exchange " << e;
}

TEST(Alltoallv, OfManySegmentsAndPeers) {
  World::run_threads(3, [](World& world) { check_large_parts(world.communicator(), 2'500'000); });
  // More peers than are served at a time.
  for (const int ranks : {2, 11}) {
    World::run_threads(
        ranks, [](World& world) { check_large_parts(on_hosts(world.communicator(), 1), 250'000); });
  }
}

// Also where one side's part is so many whole segments longer: what is left over would be taken for
// a part of the next call.
TEST(Mistakes, PartsThatDifferByWholeSegmentsAreNoticed) {
  constexpr std::size_t kMore = 2 * kSegmentOnOneHost, kLess = kSegmentOnOneHost;
  for (const auto& [sent, expected] : {std::pair(kMore, kLess), std::pair(kLess, kMore),
                                       std::pair(kLess, std::size_t{0}), std::pair(kLess, kLess)}) {
    const auto exchange = [sent = sent, expected = expected](World& world) {
      std::vector<std::uint8_t> out(world.rank() == 0 ? sent : 0),
          in(world.rank() == 1 ? expected : 0);
      const std::vector<std::size_t> to{0, out.size()}, from{in.size(), 0};
      world.communicator().alltoallv(buffer_of(out), to, buffer_of(in), from);
    };
    if (sent == expected) {
      EXPECT_NO_THROW(World::run_threads(2, exchange));
    } else {
      EXPECT_THROW(World::run_threads(2, exchange), Failure) << sent << " for " << expected;
    }
  }
}

TEST(Mistakes, AreNamed) {
  World::run_threads(2, [](World& world) {
    const auto& comm = world.communicator();
    std::vector<std::int32_t> numbers(3);
    EXPECT_THROW(comm.allreduce(buffer_of(numbers), ReduceOp::average), UsageError);
    EXPECT_THROW(comm.broadcast(buffer_of(numbers), 2), UsageError);
    EXPECT_THROW(comm.send(buffer_of(numbers), -1), UsageError);
    EXPECT_THROW(comm.barrier({Match::kChannels, 0}), UsageError);
    const std::vector<std::size_t> counts{2, 2};
    EXPECT_THROW(comm.alltoallv(buffer_of(numbers), counts, buffer_of(numbers), counts),
                 UsageError);
    const std::vector<std::size_t> one{1, 1}, beyond{0, 3}, far{0, SIZE_MAX}, single{0};
    EXPECT_THROW(comm.alltoallv(buffer_of(numbers), one, buffer_of(numbers), {one, beyond}),
                 UsageError);
    EXPECT_THROW(comm.alltoallv(buffer_of(numbers), {one, far}, buffer_of(numbers), one),
                 UsageError);
    EXPECT_THROW(comm.alltoallv(buffer_of(numbers), one, buffer_of(numbers), {one, single}),
                 UsageError);
    comm.barrier();  // still usable
  });
}

}  // namespace
}  // namespace convoy::comm
