// Many operations in flight, and operations that outlive what they were started from; ranks are
// threads.
#include "tests/comm/in_flight_reference.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <latch>
#include <set>
#include <string>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "tests/base/patience.h"
#include "tests/comm/allreduce_reference.h"

namespace convoy::comm {
namespace {

WorldOptions with_progress_by(Progress progress) {
  WorldOptions options;
  options.progress = progress;
  return options;
}

class InFlight : public testing::TestWithParam<Progress> {};
INSTANTIATE_TEST_SUITE_P(Progress, InFlight, testing::Values(Progress::caller, Progress::thread));

TEST_P(InFlight, BurstsInAnyOrder) {
  for (const int ranks : {2, 3}) {
    World::run_threads(
        ranks, [](World& world) { check_bursts(apart(world.communicator())); },
        with_progress_by(GetParam()));
  }
}

TEST_P(InFlight, BurstsBetweenHosts) {
  World::run_threads(
      2,
      [](World& world) {
        const Communicator part = on_hosts(world.communicator(), 1);
        check_burst(part, 500, 300, Order::opposite);
      },
      with_progress_by(GetParam()));
}

TEST_P(InFlight, OperationsOutliveTheirCommunicator) {
  for (const int ranks : {2, 3, 4}) {
    World::run_threads(
        ranks,
        [](World& world) {
          const Communicator& all = world.communicator();
          check_orphans([&] { return all.duplicate(); });
          check_orphans([&] { return apart(all); });
          check_orphans([&] { return apart(all.with_reproducible(true)); });
          check_orphans([&] { return on_hosts(all, 1); });
          if (all.size() == 4) {
            check_orphans([&] { return on_hosts(all.with_allreduce("hierarchical"), 2); });
            check_orphans([&] {
              return on_hosts(all.with_allreduce("hierarchical").with_reproducible(true), 2);
            });
          }
        },
        with_progress_by(GetParam()));
  }
}

// In the order of their starts, whatever they are and in whatever order they are waited for.
void check_same_match(const Communicator& comm, bool first_first) {
  constexpr std::size_t kCount = 1 << 18;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto me = static_cast<std::size_t>(comm.rank());
  const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
  const auto mine = static_cast<float>(me + 1);
  std::vector<float> a(kCount, mine), b(kCount, 100 * mine), c(kCount, mine), d(1000, mine);
  std::vector<float> e(ranks * 50'000, mine), from_all(ranks * 50'000), f(10, 7 * mine), g(10);
  const std::vector<std::size_t> parts(ranks, 50'000);
  std::vector<float> h(e.size(), -mine), again(e.size());
  const int next = (comm.rank() + 1) % comm.size();
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  std::vector<Operation> running;
  running.push_back(comm.start_allreduce(buffer_of(a), ReduceOp::sum));
  running.push_back(comm.start_send(buffer_of(f), next));
  running.push_back(comm.start_allreduce(buffer_of(b), ReduceOp::sum));
  running.push_back(comm.start_barrier());
  running.push_back(comm.start_alltoallv(buffer_of(e), parts, buffer_of(from_all), parts));
  running.push_back(comm.start_broadcast(buffer_of(c), comm.size() - 1));
  running.push_back(comm.start_receive(buffer_of(g), before));
  running.push_back(comm.start_alltoallv(buffer_of(h), parts, buffer_of(again), parts));
  running.push_back(comm.start_allreduce(buffer_of(d), ReduceOp::max));
  if (!first_first) std::reverse(running.begin(), running.end());
  for (Operation& operation : running) operation.wait();
  EXPECT_EQ(a, std::vector<float>(kCount, sum));
  EXPECT_EQ(b, std::vector<float>(kCount, 100 * sum));
  EXPECT_EQ(c, std::vector<float>(kCount, static_cast<float>(ranks)));
  EXPECT_EQ(d, std::vector<float>(1000, static_cast<float>(ranks)));
  for (std::size_t i = 0; i < from_all.size(); ++i) {
    ASSERT_EQ(from_all[i], static_cast<float>(i / 50'000 + 1));
    ASSERT_EQ(again[i], -from_all[i]);
  }
  EXPECT_EQ(g, std::vector<float>(10, 7 * static_cast<float>(before + 1)));
}

TEST_P(InFlight, OperationsOfOneMatchGoInTurn) {
  for (const int ranks : {2, 3}) {
    World::run_threads(
        ranks,
        [](World& world) {
          const Communicator& all = world.communicator();
          for (const Communicator& part : {on_hosts(all, 1), on_hosts(all, 2), all.duplicate()}) {
            check_same_match(part, true);
            // Each rank waits in an order of its own.
            check_same_match(part, world.rank() == 0);
          }
        },
        with_progress_by(GetParam()));
  }
}

// A slot is free again when all have done with it, its owner among them: here rank 1 is done with
// 64 operations long before rank 0, who started them first and goes on starting.
TEST(InFlightSlots, AnOwnerNeedsItsSlotsAsLongAsOthersDo) {
  for (const std::size_t operations : {64UL, 65UL, 100UL, 200UL}) {
    std::latch started(1), done(1);
    World::run_threads(
        2,
        [&](World& world) {
          const Communicator& comm = world.communicator();
          std::vector<std::vector<float>> data(operations);
          std::vector<Operation> running(operations);
          const auto start = [&](std::size_t first, std::size_t last) {
            for (std::size_t key = first; key < last; ++key) {
              data[key].assign(100, static_cast<float>(key * 2) + static_cast<float>(comm.rank()));
              running[key] = comm.start_allreduce(buffer_of(data[key]), ReduceOp::sum,
                                                  {0, static_cast<std::uint16_t>(key)});
            }
          };
          if (comm.rank() == 0) {
            start(0, 64);
            started.count_down();
            done.wait();
            start(64, operations);
          } else {
            started.wait();
            start(0, operations);
            for (std::size_t key = 0; key < 64; ++key) running[key].wait();
            done.count_down();
          }
          for (Operation& operation : running) operation.wait();
          for (std::size_t key = 0; key < operations; ++key)
            ASSERT_EQ(data[key], std::vector<float>(100, static_cast<float>(key * 4 + 1)));
        },
        with_progress_by(Progress::caller));
  }
}

std::set<std::string> threads_of_this_process() {
  std::set<std::string> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads.insert(entry.path().filename());
  return threads;
}

// As a set of bits, the lowest of which is signal 1.
std::uint64_t signals_blocked_by(const std::string& thread) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  }
  return 0;
}

// Signals are for the program's threads: one that all of these have blocked, to take it with
// sigwait(), would otherwise end the process.
TEST(ProgressThread, TakesNoSignals) {
  const std::set<std::string> before = threads_of_this_process();
  const std::uint64_t own = signals_blocked_by(std::to_string(gettid()));
  World::run_threads(
      2,
      [&](World& world) {
        const std::vector<std::string> ranks =
            world.communicator().gather_text(std::to_string(gettid()));
        const auto is_rank = [&](const std::string& thread) {
          return std::find(ranks.begin(), ranks.end(), thread) != ranks.end();
        };
        int progress_threads = 0;
        for (const std::string& thread : threads_of_this_process()) {
          if (before.contains(thread) || is_rank(thread)) continue;
          ++progress_threads;
          // A fault of the thread's own ends the process as ever, or is handled. The C library has
          // everything blocked while a thread begins.
          const auto blocks_faults = [&thread] {
            return (signals_blocked_by(thread) & (1u << (SIGSEGV - 1) | 1u << (SIGBUS - 1))) != 0;
          };
          const auto limit = std::chrono::steady_clock::now() + test::patience();
          while (blocks_faults() && std::chrono::steady_clock::now() < limit)
            std::this_thread::yield();
          EXPECT_FALSE(blocks_faults());
          const std::uint64_t blocked = signals_blocked_by(thread);
          for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD})
            EXPECT_TRUE(blocked >> (signal - 1) & 1) << signal;
        }
        EXPECT_EQ(progress_threads, 2);
        for (const std::string& rank : ranks) EXPECT_EQ(signals_blocked_by(rank), own);
        world.communicator().barrier();
      },
      with_progress_by(Progress::thread));
}

using Start = Operation (*)(const Communicator&, std::vector<float>&);

// What an exception takes out of flight on rank 0, which then uses its memory for something else.
// Rank 1 has what was sent, or a Failure that names rank 0, and never anything between.
void check_abandoned(const Communicator& comm, std::size_t count, Start start,
                     std::latch& abandoned) {
  std::vector<float> data(count, 3);
  if (comm.rank() == 1) {
    abandoned.wait();
    try {
      start(comm, data).wait();
      for (const float value : data) ASSERT_EQ(value, 3);
    } catch (const Failure& e) {
      // Why, and not only that rank 0 has given up.
      EXPECT_NE(std::string(e.what()).find("rank 0"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("before it was done"), std::string::npos) << e.what();
    }
    return;
  }
  bool done = false;
  try {
    Operation running = start(comm, data);
    done = running.done();
    throw std::logic_error("of the program's own");
  } catch (const std::logic_error&) {
    std::fill(data.begin(), data.end(), 77.F);
    abandoned.count_down();
  }
  if (done) return;
  try {
    comm.barrier();
    ADD_FAILURE() << "the world goes on";
  } catch (const Failure& e) {
    EXPECT_NE(std::string(e.what()).find("rank 0"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("before it was done"), std::string::npos) << e.what();
  }
}

TEST_P(InFlight, AnExceptionThatAbandonsAnOperation) {
  const Start starts[] = {[](const Communicator& comm, std::vector<float>& data) {
                            return comm.start_broadcast(buffer_of(data), 0);
                          },
                          [](const Communicator& comm, std::vector<float>& data) {
                            return comm.start_allreduce(buffer_of(data), ReduceOp::max);
                          }};
  using Make = Communicator (*)(const Communicator&);
  const Make makes[] = {[](const Communicator& comm) { return comm.duplicate(); },
                        [](const Communicator& comm) { return apart(comm); },
                        [](const Communicator& comm) { return on_hosts(comm, 1); }};
  for (const std::size_t count : {10UL, 700'000UL}) {
    for (const Make make : makes) {
      for (const Start start : starts) {
        std::latch abandoned(1);
        const auto body = [&](World& world) {
          check_abandoned(make(world.communicator()), count, start, abandoned);
        };
        try {
          World::run_threads(2, body, with_progress_by(GetParam()));
        } catch (const Failure&) {  // worlds that have failed can't be left in good order
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::comm
