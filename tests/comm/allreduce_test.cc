// The algorithms of allreduce on ranks that are threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "comm/topology/tree.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "tests/base/patience.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/ranks_in_time.h"

namespace convoy::comm {
namespace {

using namespace std::chrono_literals;

class Allreduce : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Allreduce, testing::Range(1, 10));

TEST_P(Allreduce, EveryAlgorithmTypeAndOperation) {
  World::run_threads(GetParam(), [](World& world) { check_every_allreduce(world.communicator()); });
}

TEST_P(Allreduce, TheBitsAreFixed) {
  World::run_threads(GetParam(), [](World& world) { check_allreduce_bits(world.communicator()); });
}

TEST(AllreduceBits, OfHardNumbersAreTheSameOnEveryRank) {
  for (const int ranks : {2, 3, 6}) {
    World::run_threads(ranks, [](World& world) {
      check_hard_bits(apart(world.communicator()));
      if (world.size() > 2) check_hard_bits(on_hosts(world.communicator(), 2));
    });
  }
}

TEST_P(Allreduce, OnHostsOfSeveralRanks) {
  for (int per_host : {1, 2, 3, 4}) {
    World::run_threads(GetParam(), [per_host](World& world) {
      const Communicator part = on_hosts(world.communicator(), per_host);
      const int p = part.size();
      EXPECT_EQ(CommunicatorInternals::abilities(part).shared, p > 1 && p <= per_host);
      EXPECT_EQ(CommunicatorInternals::abilities(part).hierarchical,
                per_host > 1 && p > per_host && p % per_host == 0);
      if (!CommunicatorInternals::abilities(part).hierarchical) return;  // as on one host each
      check_every_allreduce(part);
      check_allreduce_bits(part);
    });
  }
}

TEST_P(Allreduce, MulticolorSendsWhatTheTopologySays) {
  for (int colors : {1, 2, 4, GetParam()}) {
    World::run_threads(GetParam(), [colors](World& world) {
      const Communicator comm = world.communicator().duplicate();
      const std::size_t chunk_elements = 3000;
      std::vector<float> data(chunk_elements * static_cast<std::size_t>(colors), 1);
      const Traffic before = comm.traffic();
      CommunicatorInternals::start_allreduce(
          comm, Buffer(std::span(data)), ReduceOp::sum,
          {AllreduceAlgorithm::multicolor, colors, Pipeline{1024, 2}})
          .wait();
      const auto chunks = static_cast<std::size_t>(
          sent_chunks(comm.size(), colors)[static_cast<std::size_t>(comm.rank())]);
      const std::size_t bytes = chunks * chunk_elements * sizeof(float);
      EXPECT_EQ(comm.traffic().bytes_sent - before.bytes_sent, bytes);
      EXPECT_EQ(comm.traffic().bytes_received - before.bytes_received, bytes);
    });
  }
}

TEST_P(Allreduce, SeveralAtOnceInAnyOrder) {
  World::run_threads(GetParam(), [](World& world) {
    const Communicator& comm = world.communicator();
    constexpr std::size_t kKeys = 6;
    std::vector<std::vector<float>> data(kKeys, std::vector<float>(5000, 1));
    std::vector<Operation> operations(kKeys);
    for (std::size_t key : permutation(kKeys, 1, static_cast<std::uint64_t>(comm.rank()))) {
      operations[key] = CommunicatorInternals::start_allreduce(
          comm, Buffer(std::span(data[key])), ReduceOp::sum,
          {AllreduceAlgorithm::multicolor, 4, Pipeline{512, 2}},
          {0, static_cast<std::uint16_t>(key)});
    }
    for (Operation& operation : operations) operation.wait();
    for (const auto& values : data)
      ASSERT_EQ(values, std::vector<float>(5000, static_cast<float>(comm.size())));
  });
}

std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Failure& e) {
    return e.what();
  }
  return "no failure";
}

TEST(AllreduceMistakes, SizesThatDifferAreNamedByEveryAlgorithm) {
  std::vector<AllreduceChoice> choices;
  World::run_threads(3, [&](World& world) {
    if (world.rank() == 0) choices = every_allreduce(world.communicator());
  });
  for (const AllreduceChoice& choice : choices) {
    const std::string message = failure_of([&] {
      World::run_threads(3, [&](World& world) {
        std::vector<float> data(world.rank() == 1 ? 310 : 300);
        CommunicatorInternals::start_allreduce(world.communicator(), Buffer(std::span(data)),
                                               ReduceOp::sum, choice)
            .wait();
      });
    });
    for (const char* part : {"rank 1 called allreduce(sum, 310 x f32)",
                             " called allreduce(sum, 300 x f32)", "ranks disagree"}) {
      EXPECT_NE(message.find(part), std::string::npos)
          << message << "; " << testing::PrintToString(choice);
    }
  }
}

TEST(AllreduceMistakes, TheRankThatColorsWaitForIsNamed) {
  WorldOptions options;
  options.timeout = 1s;
  options.progress = Progress::caller;
  RanksInTime all(3);
  std::atomic<int> failed = 0;
  const std::string message = failure_of([&] {
    all.run(
        [&](World& world) {
          all.begin();
          std::vector<float> data(3000);
          // It hangs until the two others have found that out.
          const auto start = Clock::now();
          while (world.rank() == 1 && failed < 2 && Clock::now() - start < test::patience())
            std::this_thread::sleep_for(1ms);
          try {
            CommunicatorInternals::start_allreduce(world.communicator(), Buffer(std::span(data)),
                                                   ReduceOp::sum,
                                                   {AllreduceAlgorithm::multicolor, 3})
                .wait();
          } catch (const Failure&) {
            ++failed;
            throw;
          }
        },
        options);
  });
  EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("allreduce(sum, 3000 x f32)"), std::string::npos) << message;
}

}  // namespace
}  // namespace convoy::comm
