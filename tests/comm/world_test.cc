// What a world does when ranks disagree, hang, leave or fail.
#include "convoy/comm/world.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "tests/base/patience.h"
#include "tests/comm/ranks_in_time.h"

namespace convoy::comm {
namespace {

using namespace std::chrono_literals;

constexpr auto kForEver = 24h * 365;  // made-up time needs hours of the machine's for as much

// What makes the ranks fail; they must.
std::string failure_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Failure& e) {
    return e.what();
  }
  return "no failure";
}

std::string failure_of(int ranks, const std::function<void(World&)>& body,
                       WorldOptions options = {}) {
  const auto start = Clock::now();
  std::string message = failure_of([&] { World::run_threads(ranks, body, options); });
  // The usual timeout is longer: nobody has waited for that, where it is not made shorter.
  EXPECT_LT(Clock::now() - start, test::patience());
  return message;
}

// Calls body(world) on ranks whose time is made up, and returns the message. Rank 1 hangs in its
// own code until all others have failed, however long they take to find that out.
std::string failure_without_rank_1(int ranks, const std::function<void(World&)>& body,
                                   WorldOptions options) {
  const bool answers = options.progress == Progress::thread;
  RanksInTime all(static_cast<std::size_t>(ranks), answers ? std::optional(1) : std::nullopt);
  std::atomic<int> failed = 0;
  return failure_of([&] {
    all.run(
        [&](World& world) {
          all.begin();
          const auto start = Clock::now();
          while (world.rank() == 1 && failed < ranks - 1 && Clock::now() - start < test::patience())
            std::this_thread::sleep_for(1ms);
          try {
            body(world);
          } catch (const Failure&) {
            ++failed;
            throw;
          }
        },
        options);
  });
}

void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

TEST(World, TimeoutsThatNoClockHoldsAreCut) {
  for (const double seconds :
       {1e10, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    WorldOptions options;
    options.timeout = std::chrono::duration<double>(seconds);
    World::run_threads(
        2,
        [&](World& world) {
          const double kept = world.communicator().timeout().count();
          EXPECT_GT(kept, 0);
          EXPECT_LE(kept, 1e9);
          // Long enough for a rank that waits to ask what the other does.
          if (world.rank() == 1) std::this_thread::sleep_for(100ms);
          world.communicator().barrier();
        },
        options);
  }
}

TEST(World, KnowsHowLongOperationsWereUnderWay) {
  constexpr auto kPause = 20ms;
  World::run_threads(2, [&](World& world) {
    const Communicator& all = world.communicator();
    std::array<double, 1> question{}, answer{};
    constexpr Match kQuestion{0, 1}, kAnswer{0, 2};
    if (world.rank() == 1) {
      all.receive(buffer_of(question), 0, kQuestion);
      std::this_thread::sleep_for(kPause);
      return all.send(buffer_of(answer), 0, kAnswer);
    }
    const double before = world.communication_seconds();
    Operation first = all.start_receive(buffer_of(answer), 1, kAnswer);
    all.send(buffer_of(question), 1, kQuestion);
    EXPECT_GT(world.communication_seconds(), before) << "while it is";
    first.wait();
    const double after = world.communication_seconds();
    EXPECT_GE(after - before, std::chrono::duration<double>(kPause).count());
    std::this_thread::sleep_for(1ms);
    EXPECT_EQ(world.communication_seconds(), after);
  });
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

// Some calls go through shared memory, others in messages.
TEST(World, CallsThatDifferInWhatTheyMoveThroughAreAFailure) {
  WorldOptions options;
  options.allreduce = "..1KiB recursive-doubling; shared";
  for (const bool checked : {false, true}) {
    options.check_calls = checked;
    const std::string size = failure_of(
        3,
        [](World& world) {
          std::vector<float> data(world.rank() == 0 ? 100 : 1000);
          world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
        },
        options);
    expect_contains(size, {"disagree", "rank 0 called allreduce(sum, 100 x f32)",
                           " called allreduce(sum, 1000 x f32)"});
    const std::string kind = failure_of(
        3,
        [](World& world) {
          std::vector<float> data(3000), other(3000);
          const std::vector<std::size_t> parts(3, 1000);
          if (world.rank() == 1)
            world.communicator().alltoallv(buffer_of(data), parts, buffer_of(other), parts);
          else
            world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
        },
        options);
    expect_contains(kind, {"disagree", "rank 1 called alltoallv(3000 x f32)",
                           " called allreduce(sum, 3000 x f32)"});
    const std::string text = failure_of(
        2,
        [](World& world) {
          if (world.rank() == 1)
            world.communicator().gather_text("abc");
          else
            world.communicator().barrier();
        },
        options);
    expect_contains(text,
                    {"disagree", "rank 1 called gather_text(3 x u8)", "rank 0 called barrier()"});
  }
}

// The world is told who is missing from a call that makes a group, as from any other.
TEST(World, ARankThatIsMissingFromSetUpIsNamed) {
  WorldOptions options;
  options.timeout = 1s;
  options.progress = Progress::thread;
  const std::vector<std::pair<const char*, std::function<void(const Communicator&)>>> calls{
      {"split()", [](const Communicator& all) { all.split(all.rank() % 2); }},
      {"split()", [](const Communicator& all) { all.with_allreduce("ring"); }},
      {"allocate()", [](const Communicator& all) { all.allocate(1000); }}};
  for (const auto& [name, call] : calls) {
    const std::string message = failure_without_rank_1(
        3,
        [&call = call](World& world) {
          if (world.rank() == 1) world.communicator().barrier();  // throws
          call(world.communicator());
        },
        options);
    expect_contains(message, {name, "rank 1", "is in no operation"});
  }
}

// Convoy's own calls are none of the caller's business, whatever the match of his.
TEST(World, EveryMatchOfTheCallerIsHis) {
  World::run_threads(2, [](World& world) {
    const Communicator& comm = world.communicator();
    for (const std::uint16_t key : {0xffff, 0xfffe, 3, 2, 1, 0}) {
      const Match match{Match::kChannels - 1, key};
      std::vector<std::uint8_t> sent(1000, 1), got(1000);
      const std::vector<std::size_t> parts(2, 500);
      const auto start = [&] {
        return comm.start_alltoallv(buffer_of(sent), parts, buffer_of(got), parts, match);
      };
      Operation running;
      if (comm.rank() == 0) running = start();
      EXPECT_TRUE(comm.allocate(5000).shared());
      if (comm.rank() == 1) running = start();
      running.wait();
      EXPECT_EQ(got, sent);
      EXPECT_EQ(comm.gather_text("abc", match)[1], "abc");
    }
  });
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
  const std::string message = failure_without_rank_1(
      3,
      [](World& world) {
        std::vector<float> data(100);
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
  const std::string message = failure_without_rank_1(
      2,
      [](World& world) {
        world.communicator().barrier({0, 3});
      },
      options);
  expect_contains(message, {"barrier(), channel 0, key 3", "rank 1", "is in no operation"});
}

TEST(World, DifferentNumbersOfStepsEndWithNames) {
  WorldOptions options;
  options.timeout = kForEver;
  options.progress = Progress::thread;
  RanksInTime all(3, 2);
  const std::string message = failure_of([&] {
    all.run(
        [&](World& world) {
          all.begin();
          std::vector<float> data(10);
          for (int step = 0; step < (world.rank() == 2 ? 3 : 4); ++step) {
            world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
          }
        },
        options);
  });
  // Whoever finds out first, a waiting rank or the leaving one, names the one that left.
  expect_contains(message, {"rank 2 on host", "has ended its steps", "different numbers of steps"});
}

TEST(World, AnExceptionOnOneRankEndsAll) {
  std::array<std::string, 3> heard;
  try {
    World::run_threads(3, [&](World& world) {
      if (world.rank() == 1) throw std::logic_error("broken model");
      try {
        std::vector<float> data(10);
        world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
      } catch (const Failure& e) {
        heard[static_cast<std::size_t>(world.rank())] = e.what();
        throw;
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "broken model");
  } catch (const Failure& e) {  // of another rank, which was the first to end
    expect_contains(e.what(), {"rank 1 on host", "was ended by an exception"});
  }
  for (const std::size_t rank : {0, 2})
    expect_contains(heard[rank], {"rank 1 on host", "was ended by an exception"});
}

// A rank that can't go on, and says so itself: it is told from one that has met what all have.
TEST(World, ARankThatGivesUpTellsItsPeersWhy) {
  std::array<std::string, 3> heard;
  testing::internal::CaptureStderr();
  const std::string thrown = failure_of(3, [&](World& world) {
    if (world.rank() == 1) {
      EXPECT_EQ(world.failure(), "");
      EXPECT_TRUE(world.is_awaited(test::patience()));
      return world.give_up("a file is gone");
    }
    heard[static_cast<std::size_t>(world.rank())] =
        failure_of([&] { world.communicator().barrier(); });
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  expect_contains(thrown, {"a file is gone"});
  for (const std::size_t rank : {0, 2}) expect_contains(heard[rank], {"a file is gone"});

  failure_of(3, [](World& world) {
    if (world.rank() == 0) return world.give_up("so it is on all");
    EXPECT_FALSE(world.is_awaited(test::patience()));
    EXPECT_EQ(world.failure(), "so it is on all");
  });
}

// The same on the machine's own clock.
TEST(World, ARankThatHangsIsNamedInTime) {
  WorldOptions options;
  options.timeout = 1s;
  options.progress = Progress::caller;
  std::atomic<bool> failed = false;
  const std::string message = failure_of(
      2,
      [&](World& world) {
        const auto start = Clock::now();
        while (world.rank() == 1 && !failed && Clock::now() - start < test::patience())
          std::this_thread::sleep_for(10ms);
        try {
          world.communicator().barrier();
        } catch (const Failure&) {
          failed = true;
          throw;
        }
      },
      options);
  expect_contains(message, {"is not done after", "rank 1"});
}

TEST(World, ASlowRankIsNoFailure) {
  for (const Progress progress : {Progress::caller, Progress::thread}) {
    WorldOptions options;
    options.timeout = kForEver;
    options.progress = progress;
    RanksInTime all(2);
    all.run(
        [&](World& world) {
          all.begin();
          if (world.rank() == 1) {
            EXPECT_TRUE(all.wait_asked(1, 5));  // each time after two seconds
            // A job that was suspended for longer than the timeout goes on.
            all.stop_for(std::chrono::duration_cast<std::chrono::milliseconds>(2 * kForEver));
            EXPECT_TRUE(all.wait_asked(1, 8));
          }
          std::vector<float> data(10, 1);
          world.communicator().allreduce(buffer_of(data), ReduceOp::sum);
          EXPECT_EQ(data[0], 2);
          if (world.rank() == 0) EXPECT_TRUE(all.wait_asked(0, 5));  // a slow exit, too
        },
        options);
  }
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
