// Reductions whose bits depend on the contributions alone: over every algorithm, cut, placement and
// number of ranks, which are threads.
#include <gtest/gtest.h>

#include <array>

#include "comm/collectives/reproducible/agreement.h"
#include "comm/collectives/reproducible/allreduce.h"
#include "comm/collectives/ring/stream.h"
#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/mistaken_worlds.h"
#include "tests/comm/reference.h"
#include "tests/comm/reproducible_reference.h"
#include "tests/comm/shared_reference.h"

namespace convoy::comm {
namespace {

WorldOptions reproducible() {
  WorldOptions options;
  options.reproducible = true;
  return options;
}

constexpr ReduceOp kOperations[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min};

// Each algorithm with a placement of its own: which rank has which contribution. Counts take turns.
void check_bits(const Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  // Beyond what fits a slot of shared memory (f64), below, and fewer than ranks.
  const std::array<std::size_t, 3> counts{2500, 301, ranks / 2};
  const auto choices = every_allreduce(comm);
  std::uint64_t turn = 0;
  for (const Type type : kFloatingTypes) {
    for (const ReduceOp op : kOperations) {
      std::array<std::vector<char>, 3> results;
      for (std::size_t i = 0; i < counts.size(); ++i)
        results[i] = reproducible_result(type, op, ranks, counts[i]);
      // All algorithms for sums, every third one for the rest.
      const std::size_t step = op == ReduceOp::sum ? 1 : 3;
      for (std::size_t c = turn % step; c < choices.size(); c += step) {
        const AllreduceChoice& choice = choices[c];
        const std::size_t count = counts[turn % 3];
        const std::vector<char>& want = results[turn % 3];
        const auto who = permutation(ranks, 17, turn++)[static_cast<std::size_t>(comm.rank())];
        std::vector<char> data = contribution_of(type, who, count);
        CommunicatorInternals::start_allreduce(comm, Buffer(data.data() + 1, count, type), op,
                                               choice)
            .wait();
        ASSERT_EQ(std::memcmp(data.data() + 1, want.data(), want.size()), 0)
            << testing::PrintToString(choice) << ", " << name_of(op) << " of " << count << " x "
            << name_of(type) << ", " << ranks << " ranks";
      }
    }
  }
}

class Reproducible : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Reproducible, testing::Range(2, 10));

TEST_P(Reproducible, TheBitsAreThoseOfTheContributions) {
  World::run_threads(
      GetParam(), [](World& world) { check_bits(world.communicator()); }, reproducible());
}

TEST_P(Reproducible, OnHostsOfSeveralRanks) {
  for (const int per_host : {2, 3, 4}) {
    if (GetParam() % per_host != 0 || GetParam() == per_host) continue;
    World::run_threads(
        GetParam(),
        [per_host](World& world) { check_bits(on_hosts(world.communicator(), per_host)); },
        reproducible());
  }
}

// Through shared memory (in and beside the engine) and between hosts, in whole and in parts.
TEST_P(Reproducible, ThroughTheContract) {
  if (GetParam() > 5) return;
  World::run_threads(
      GetParam(),
      [](World& world) {
        const auto ranks = static_cast<std::size_t>(world.size());
        const auto who = (static_cast<std::size_t>(world.rank()) + 1) % ranks;
        for (const Communicator& comm : {world.communicator(), on_hosts(world.communicator(), 1)}) {
          for (const Type type : kFloatingTypes) {
            for (const ReduceOp op : kOperations) {
              constexpr std::size_t kCount = 9001, kCut = 4321;
              const auto want = reproducible_result(type, op, ranks, kCount);
              std::vector<char> data = contribution_of(type, who, kCount);
              char* const begin = data.data() + 1;
              const std::size_t size = size_of(type);
              Operation rest = comm.start_allreduce(
                  Buffer(begin + kCut * size, kCount - kCut, type), op, {0, 1});
              comm.allreduce(Buffer(begin, kCut, type), op);
              rest.wait();
              ASSERT_EQ(std::memcmp(begin, want.data(), want.size()), 0) << name_of(type);
              data = contribution_of(type, who, kCount);
              comm.allreduce(Buffer(data.data() + 1, kCount, type), op);
              ASSERT_EQ(std::memcmp(data.data() + 1, want.data(), want.size()), 0) << name_of(type);
              data = contribution_of(type, who, kCount);
              comm.reduce_scatter(Buffer(data.data() + 1, kCount, type), op);
              const Chunk own = chunk(kCount, comm.size(), comm.rank());
              ASSERT_EQ(std::memcmp(data.data() + 1 + own.begin * size,
                                    want.data() + own.begin * size, own.count * size),
                        0)
                  << name_of(type);
            }
          }
        }
      },
      reproducible());
}

TEST(ReproducibleCollectives, AreLikeOthers) {
  World::run_threads(
      3,
      [](World& world) {
        const Communicator& all = world.communicator();
        check_all_collectives(all);
        check_matching(all);
        check_crowd(all);
        const Communicator apart = on_hosts(all, 1);
        check_all_collectives(apart);
        check_matching(apart);
        check_every_allreduce(all);  // of whole numbers, too
      },
      reproducible());
}

TEST(ReproducibleOne, RankKeepsItsBits) {
  World::run_threads(
      1,
      [](World& world) {
        for (const Type type : kFloatingTypes) {
          for (const ReduceOp op : kOperations) {
            const std::vector<char> before = contribution_of(type, 0, 100);
            std::vector<char> data = before;
            const Buffer buffer(data.data() + 1, 100, type);
            for (const AllreduceChoice& choice : every_allreduce(world.communicator()))
              CommunicatorInternals::allreduce(world.communicator(), buffer, op, choice);
            world.communicator().reduce_scatter(buffer, op);
            EXPECT_EQ(data, before) << name_of(op) << " of " << name_of(type);
          }
        }
      },
      reproducible());
}

TEST(ReproducibleBlocks, FollowEachOther) {
  World::run_threads(
      2,
      [](World& world) {
        // A block is 4 Mi elements.
        constexpr std::size_t kCount = (std::size_t{4} << 20) + 5;
        for (const Type type : {Type::f32, Type::bf16}) {
          std::vector<char> data(kCount * size_of(type));
          for (std::size_t i = 0; i < kCount; ++i)
            store(type, data.data(), i, reference_value(world.rank(), i));
          CommunicatorInternals::start_allreduce(world.communicator(),
                                                 Buffer(data.data(), kCount, type), ReduceOp::sum,
                                                 {AllreduceAlgorithm::ring_rsag})
              .wait();
          for (std::size_t i = 0; i < kCount; ++i)
            ASSERT_EQ(load(type, data.data(), i), reference_result(2, i, ReduceOp::sum)) << i;
        }
      },
      reproducible());
}

// 66 contributions need i64, also where they pass through messages.
TEST(ReproducibleBlocks, OfManyRanks) {
  World::run_threads(
      66,
      [](World& world) {
        constexpr std::size_t kCount = 90;
        for (const Type type : {Type::f32, Type::f16}) {
          const auto want = reproducible_result(type, ReduceOp::average, 66, kCount);
          for (const AllreduceChoice choice :
               {AllreduceChoice{AllreduceAlgorithm::shared},
                AllreduceChoice{AllreduceAlgorithm::recursive_doubling}}) {
            if (!CommunicatorInternals::abilities(world.communicator()).allow(choice.algorithm))
              continue;
            auto data = contribution_of(type, static_cast<std::size_t>(65 - world.rank()), kCount);
            CommunicatorInternals::start_allreduce(world.communicator(),
                                                   Buffer(data.data() + 1, kCount, type),
                                                   ReduceOp::average, choice)
                .wait();
            ASSERT_EQ(std::memcmp(data.data() + 1, want.data(), want.size()), 0) << name_of(type);
          }
        }
      },
      reproducible());
}

TEST(ReproducibleChoice, OfACommunicatorAndItsParts) {
  World::run_threads(3, [](World& world) {
    const Communicator& all = world.communicator();
    const Communicator on = all.with_reproducible(true);
    const auto is = [](const Communicator& c) { return CommunicatorInternals::reproducible(c); };
    EXPECT_FALSE(is(all));
    EXPECT_TRUE(is(on));
    EXPECT_TRUE(is(on.split(0)));
    EXPECT_TRUE(is(on.duplicate()));
    EXPECT_TRUE(is(on.with_allreduce("naive")));
    EXPECT_FALSE(is(on.with_reproducible(false)));
    const Communicator naive = all.with_allreduce("naive").with_reproducible(true);
    EXPECT_EQ(CommunicatorInternals::choose(naive, 5).algorithm, AllreduceAlgorithm::naive);
    EXPECT_THROW((void)all.with_reproducible(world.rank() == 1), UsageError);
    all.barrier();  // still usable
  });
}

TEST(ReproducibleChoice, OfAWorldIsThatOfItsCommunicators) {
  World::run_threads(
      2,
      [](World& world) {
        EXPECT_TRUE(world.options().reproducible);
        EXPECT_TRUE(CommunicatorInternals::reproducible(world.communicator().split(world.rank())));
        EXPECT_FALSE(
            CommunicatorInternals::reproducible(world.communicator().with_reproducible(false)));
      },
      reproducible());
}

TEST(ReproducibleMistakes, WorldsThatDiffer) {
  std::vector<WorldOptions> options(3);
  options[2].reproducible = true;
  for (const std::string& message : mistakes_of(options)) {
    EXPECT_EQ(message,
              "ranks differ about reproducible reductions (WorldOptions::reproducible or the "
              "environment variable CONVOY_REPRODUCIBLE): they are off on rank 0 and on on rank 2");
  }
}

std::string failure_of(const std::function<void(World&)>& body) {
  try {
    World::run_threads(3, body, reproducible());
  } catch (const Failure& e) {
    return e.what();
  }
  return "no failure";
}

TEST(ReproducibleMistakes, CallsThatDifferAreNamedByEveryAlgorithm) {
  std::vector<AllreduceChoice> choices;
  World::run_threads(3, [&](World& world) {
    if (world.rank() == 0) choices = every_allreduce(world.communicator());
  });
  for (const AllreduceChoice& choice : choices) {
    for (const std::size_t odd : {std::size_t{310}, std::size_t{0}}) {
      const std::string message = failure_of([&](World& world) {
        std::vector<float> data(world.rank() == 1 ? odd : 300);
        CommunicatorInternals::start_allreduce(world.communicator(), Buffer(std::span(data)),
                                               ReduceOp::sum, choice)
            .wait();
      });
      for (const std::string& part :
           {"rank 1 called allreduce(sum, " + std::to_string(odd) + " x f32)",
            std::string(" called allreduce(sum, 300 x f32)"), std::string("ranks disagree")}) {
        EXPECT_NE(message.find(part), std::string::npos)
            << message << "; " << testing::PrintToString(choice);
      }
    }
  }
  const std::string message = failure_of([&](World& world) {
    std::vector<float> data(300);
    const ReduceOp op = world.rank() == 1 ? ReduceOp::max : ReduceOp::sum;
    on_hosts(world.communicator(), 1).reduce_scatter(buffer_of(data), op);
  });
  EXPECT_NE(message.find("rank 1 called reduce_scatter(max, 300 x f32)"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace convoy::comm
