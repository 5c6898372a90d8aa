// What a world does when ranks disagree, hang, leave or fail.
#include "convoy/comm/world.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

using namespace std::chrono_literals;

// Runs the body on thread ranks that must fail, and returns the message.
std::string failure_of(int ranks, const std::function<void(World&)>& body,
                       WorldOptions options = {}) {
  const auto start = std::chrono::steady_clock::now();
  std::string message = "no failure";
  try {
    World::run_threads(ranks, body, options);
  } catch (const Failure& e) {
    message = e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s) << "every survivor ends within 10 s";
  return message;
}

void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

TEST(World, KnowsHostsAndLocalRanks) {
  World::run_threads(3, [](World& world) {
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.local_size(), 3);
    EXPECT_EQ(world.local_rank(), world.rank());
    EXPECT_EQ(world.host(0), world.host(2));
  });
}

TEST(World, AloneIsAWorldOfOne) {
  World world = World::join();
  EXPECT_EQ(world.size(), 1);
  std::vector<float> data{1, 2};
  world.communicator().allreduce(buffer_of(data), ReduceOp::average);
  EXPECT_EQ(data[1], 2);
  world.communicator().barrier();
}

TEST(World, CallsThatDifferAreAFailureWithoutAskingForIt) {
  const std::string message = failure_of(2, [](World& world) {
    std::vector<float> data(world.rank() == 0 ? 100 : 200);
    world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
  });
  expect_contains(message, {"rank 0 called allreduce(sum, 100 x f32)",
                            "rank 1 called allreduce(sum, 200 x f32)"});
}

// Small and large buffers take different ways.
TEST(World, CallsThatDifferInTheirWayAreAFailure) {
  const std::string message = failure_of(3, [](World& world) {
    std::vector<float> data(world.rank() == 0 ? 100 : 200'000);
    world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
  });
  expect_contains(
      message, {"rank 0 called allreduce(sum, 100 x f32)", "called allreduce(sum, 200000 x f32)"});
}

TEST(World, CheckedCallsNameBothRanksAndBothCalls) {
  WorldOptions options;
  options.check_calls = true;
  for (int ranks : {2, 3, 5}) {
    const std::string message = failure_of(
        ranks,
        [](World& world) {
          std::vector<float> data(100);
          if (world.rank() == 1)
            world.communicator().broadcast(buffer_of(data), 0);
          else
            world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
        },
        options);
    expect_contains(message,
                    {"disagree", "rank 1 called broadcast", "called allreduce(sum, 100 x f32)"});
  }
  const std::string type = failure_of(
      2,
      [](World& world) {
        std::vector<float> f(100);
        std::vector<std::int32_t> i(100);
        if (world.rank() == 0)
          world.communicator().allreduce(buffer_of(f), ReduceOp::sum);
        else
          world.communicator().allreduce(buffer_of(i), ReduceOp::sum);
      },
      options);
  expect_contains(type, {"100 x f32", "100 x i32"});
}

TEST(World, ARankThatHangsIsNamedWithTheOperation) {
  WorldOptions options;
  options.timeout = 1s;
  options.progress = Progress::caller;
  const std::string message = failure_of(
      3,
      [](World& world) {
        std::vector<float> data(100);
        if (world.rank() == 1) std::this_thread::sleep_for(6s);  // in its own code
        world.communicator().allreduce(buffer_of(data), ReduceOp::sum, {0, 7});
      },
      options);
  expect_contains(message,
                  {"allreduce(sum, 100 x f32), channel 0, key 7", "rank 1", "does not answer"});
}

TEST(World, ARankThatHangsButAnswersIsNamedAsInNoOperation) {
  WorldOptions options;
  options.timeout = 1s;
  options.progress = Progress::thread;  // answers for the rank
  const std::string message = failure_of(
      2,
      [](World& world) {
        world.communicator().barrier();
        if (world.rank() == 1) std::this_thread::sleep_for(6s);
        world.communicator().barrier({0, 3});
      },
      options);
  expect_contains(message, {"barrier(), channel 0, key 3", "rank 1", "is in no operation"});
}

TEST(World, DifferentNumbersOfStepsEndWithNames) {
  const std::string message = failure_of(3, [](World& world) {
    std::vector<float> data(10);
    for (int step = 0; step < (world.rank() == 2 ? 3 : 4); ++step) {
      world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
    }
  });
  // Whoever finds out first, a waiting rank or the leaving one, names the one that left.
  expect_contains(message, {"rank 2 on host", "has ended its steps", "different numbers of steps"});
}

TEST(World, AnExceptionOnOneRankEndsAll) {
  EXPECT_THROW(World::run_threads(3,
                                  [](World& world) {
                                    if (world.rank() == 1) throw std::logic_error("broken model");
                                    std::vector<float> data(10);
                                    world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
                                  }),
               std::exception);
}

TEST(World, ASlowRankIsNoFailure) {
  World::run_threads(2, [](World& world) {
    if (world.rank() == 1) std::this_thread::sleep_for(4s);
    std::vector<float> data(10, 1);
    world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
    EXPECT_EQ(data[0], 2);
    if (world.rank() == 0) std::this_thread::sleep_for(4s);  // a slow exit, too
  });
}

TEST(World, FinishesWhatNobodyWaitedFor) {
  std::vector<std::vector<float>> data(3, std::vector<float>(50'000, 1));
  World::run_threads(3, [&](World& world) {
    auto& mine = data[static_cast<std::size_t>(world.rank())];
    const Operation forgotten =
        world.communicator().start_allreduce(buffer_of(mine), ReduceOp::sum);
  });
  EXPECT_EQ(data[2].back(), 3);
}

}  // namespace
}  // namespace convoy::comm
