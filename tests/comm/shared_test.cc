// Collectives through memory that the ranks of a host share; ranks are threads.
#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <atomic>
#include <optional>
#include <thread>

#include "comm/shared_memory/reduction.h"
#include "convoy/base/error.h"
#include "convoy/base/shared_memory.h"
#include "convoy/base/system.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"
#include "tests/base/mounts.h"
#include "tests/base/patience.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/in_flight_reference.h"
#include "tests/comm/ranks_in_time.h"
#include "tests/comm/shared_reference.h"

namespace convoy::comm {
namespace {

using test::with_little_shared_memory;

class Shared : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Shared, testing::Values(1, 2, 3, 5));

TEST_P(Shared, RegisteredAndOrdinaryMemory) {
  World::run_threads(GetParam(),
                     [](World& world) { check_shared_memory(apart(world.communicator())); });
}

TEST_P(Shared, MemoryOfOneProcessIsReachedAsItIs) {
  World::run_threads(GetParam(), [](World& world) {
    std::vector<float> data(100'003);
    check_in_place(world.communicator(), data);
  });
}

TEST_P(Shared, EveryAlgorithmTypeAndOperation) {
  World::run_threads(GetParam(),
                     [](World& world) { check_every_allreduce(apart(world.communicator())); });
}

TEST_P(Shared, ManyAtOnceInAnyOrder) {
  World::run_threads(GetParam(), [](World& world) { check_crowd(apart(world.communicator())); });
}

// It is the cores that the ranks may run on that count, not those of the machine.
TEST(SharedCores, RanksThatAreBoundToOneCoreAreCrowded) {
  const std::vector<int> cores = usable_cores();
  for (const bool one : {true, false}) {
    if (!one && cores.size() < 2) continue;
    auto transports = thread_transports(2);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        ASSERT_TRUE(bind_to_cores({cores[one ? 0 : rank]}));
        World world(std::move(transports[rank]), WorldOptions());
        const Communicator part = world.communicator().duplicate();
        EXPECT_EQ(CommunicatorInternals::locality(part).node->crowded(), one);
        world.close();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// Who gives an operation up may use its memory for something else afterwards: rank 1 is in the
// middle of a block of it then, and would write there.
std::atomic<bool> in_block, giving_up, given_up, looked, left_alone;
void reduce_slowly(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                   std::size_t count, int divisor) {
  if (!looked.exchange(true)) {  // a block is reduced in pieces
    in_block = true;
    const auto until = Clock::now() + test::patience();
    while (!giving_up && Clock::now() < until) std::this_thread::yield();
    // What must not come is looked for a few times.
    for (int look = 0; look < 200 && !given_up; ++look)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    left_alone = !given_up;
  }
  reduce_all(op, type, into, sources, count, divisor);
}

TEST(SharedReductions, GivenUpAreLeftByTheOthersFirst) {
  in_block = giving_up = given_up = looked = left_alone = false;
  const auto body = [](World& world) {
    Node& node = *CommunicatorInternals::locality(world.communicator()).node;
    std::vector<float> data(100'000, 1);
    const Buffer buffer(std::span<float>{data});
    const Call call = make_reduction(Kind::allreduce, buffer, ReduceOp::sum, {});
    const std::uint64_t id = node.board().next_id({});
    const auto until = Clock::now() + test::patience();
    std::optional<SharedReduction> work;
    work.emplace(node, call, id, buffer, ReduceOp::sum, 1, true,
                 world.rank() == 0 ? reduce_all : reduce_slowly);
    if (world.rank() == 1) {
      try {
        while (!work->done() && Clock::now() < until) work->advance();
        ADD_FAILURE() << "was not given up";
      } catch (const Failure&) {
      }
      return;
    }
    while (!in_block && Clock::now() < until) {
      work->advance();
      std::this_thread::yield();
    }
    giving_up = true;
    work.reset();
    given_up = true;
  };
  WorldOptions options;
  options.progress = Progress::caller;
  World::run_threads(2, body, options);
  EXPECT_TRUE(left_alone);
}

TEST_P(Shared, TheOrderOfSummationIsThatOfRanks) {
  World::run_threads(GetParam(), [](World& world) {
    const Communicator comm = apart(world.communicator());
    for (std::size_t count : {1000UL, 50'000UL}) {
      RandomStream random(3, static_cast<std::uint64_t>(comm.rank()));
      std::vector<float> one(count);
      for (float& value : one) value = static_cast<float>(random.uniform() - 0.5);
      std::vector<float> other = one;
      comm.allreduce(buffer_of(one), ReduceOp::sum);
      CommunicatorInternals::start_allreduce(comm, Buffer(std::span(other)), ReduceOp::sum,
                                             {AllreduceAlgorithm::naive})
          .wait();
      ASSERT_EQ(one, other);
    }
  });
}

TEST(SharedMistakes, ReleasedMemoryIsNamed) {
  std::string message = "no failure";
  try {
    World::run_threads(2, [](World& world) {
      const Communicator comm = apart(world.communicator());
      RegisteredMemory memory = comm.allocate(1 << 20);
      std::vector<float> ordinary(1 << 18);
      Buffer data(memory.bytes().data(), 1 << 18, Type::f32);
      if (world.rank() == 1) {
        memory = {};
        data = std::span(ordinary);
      }
      comm.allreduce(data, ReduceOp::sum);
    });
  } catch (const Failure& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("rank 0 uses registered memory that this rank has released"),
            std::string::npos)
      << message;
}

// A full /dev/shm shows as SIGBUS to who believes what mmap says.
TEST(SharedMistakes, WithoutRoomForItRanksUseMessages) {
  with_little_shared_memory("64k", [] {
    World::run_threads(3, [](World& world) {
      const Communicator& comm = world.communicator();
      EXPECT_NE(CommunicatorInternals::locality(comm).problem.find("No space left"),
                std::string::npos);
      EXPECT_FALSE(CommunicatorInternals::abilities(comm).shared);
      EXPECT_FALSE(comm.allocate(5000).shared());
      check_all_collectives(comm);
    });
  });
}

TEST(SharedMistakes, WithoutRoomForItMemoryIsNotRegistered) {
  with_little_shared_memory("64m", [] {
    World::run_threads(2, [](World& world) {
      const Communicator comm = apart(world.communicator());
      EXPECT_TRUE(CommunicatorInternals::abilities(comm).shared);
      const RegisteredMemory large = comm.allocate(40 << 20), small = comm.allocate(1 << 20);
      EXPECT_FALSE(large.shared());
      EXPECT_TRUE(small.shared());
      check_in_place(comm, {reinterpret_cast<float*>(large.bytes().data()), 300'000});
    });
  });
}

// What a container has, for a world, a reducer's communicator and a batch normalization's.
TEST(SharedMistakes, SeveralCommunicatorsFitAContainer) {
  with_little_shared_memory("64m", [] {
    World::run_threads(8, [](World& world) {
      std::vector<Communicator> all;
      for (int i = 0; i < 3; ++i) {
        all.push_back(apart(world.communicator()));
        ASSERT_TRUE(CommunicatorInternals::abilities(all.back()).shared) << i;
      }
      // Staging blocks and payloads of all of them at once.
      std::vector<std::vector<float>> data(18);
      std::vector<Operation> running;
      for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] = contribution<float>(world.rank(), i % 2 == 0 ? 100'000 : 4000);
        running.push_back(all[i % 3].start_allreduce(buffer_of(data[i]), ReduceOp::sum,
                                                     {0, static_cast<std::uint16_t>(i)}));
      }
      for (Operation& operation : running) operation.wait();
      for (const auto& values : data)
        ASSERT_EQ(values, expected<float>(8, values.size(), ReduceOp::sum));
    });
  });
}

// Little more than what a communicator has from the start: everything works, in less memory.
TEST(SharedMistakes, WithHardlyAnyRoomCollectivesTakeTurns) {
  for (const char* room : {"160k", "400k"}) {
    with_little_shared_memory(room, [] {
      World::run_threads(2, [](World& world) {
        const Communicator comm = world.communicator();
        ASSERT_TRUE(CommunicatorInternals::abilities(comm).shared);
        CommunicatorInternals::locality(comm).node->keep_apart();
        std::vector<float> data(20'001);
        check_in_place(comm, data);
        for (const std::size_t elements : {0, 1, 4096, 10'000})
          check_burst(comm, 70, elements, Order::same);
      });
    });
  }
}

// Commits all that is left of shared memory.
std::shared_ptr<Mapping> take_the_rest() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) throw Failure("no /dev/shm");
  const std::size_t page = 4096, left = info.f_bavail * info.f_bsize;
  auto rest = Mapping::create(left, Mapping::Kind::unnamed);
  rest->commit(0, left - page);  // one is its own
  return rest;
}

// Operations of several phases between hosts, of which each rank has room for one or two at once:
// whichever of them its peers on other hosts let it go on with, one must not keep another's room.
TEST(SharedMistakes, WithNoRoomOperationsBetweenHostsTakeTurns) {
  for (const bool reproducible : {false, true}) {
    for (const bool check_calls : {false, true}) {
      WorldOptions options;
      options.timeout = test::patience();  // for hangs alone
      options.reproducible = reproducible;
      options.check_calls = check_calls;
      with_little_shared_memory("2m", [&] {
        World::run_threads(
            4,
            [](World& world) {
              const Communicator comm =
                  on_hosts(world.communicator().with_allreduce("hierarchical"), 2);
              ASSERT_TRUE(CommunicatorInternals::abilities(comm).hierarchical);
              CommunicatorInternals::locality(comm).node->keep_apart();
              std::shared_ptr<Mapping> rest;
              if (comm.rank() == 0) rest = take_the_rest();
              comm.barrier();
              for (int repetition = 0; repetition < 5; ++repetition)
                check_burst(comm, 40, 5000, Order::same);
            },
            options);
      });
    }
  }
}

// Where there is no room for more slots, who waits for one is told who keeps it.
TEST(SharedMistakes, SlotsThatRunOut) {
  constexpr std::size_t kSlots = 80;
  for (const std::size_t operations : {kSlots, 2 * kSlots - 1}) {
    World::run_threads(2, [&](World& world) {
      const Communicator comm = apart(world.communicator());
      CommunicatorInternals::locality(comm).node->board().limit_slots(kSlots);
      check_burst(comm, operations, 1, Order::opposite);
    });
  }
  WorldOptions options;
  options.timeout = std::chrono::seconds(1);
  RanksInTime all(2);
  std::string message = "no failure";
  try {
    all.run(
        [&](World& world) {
          const Communicator comm = apart(world.communicator());
          CommunicatorInternals::locality(comm).node->board().limit_slots(kSlots);
          all.begin();
          check_burst(comm, 2 * kSlots, 1, Order::opposite);
        },
        options);
  } catch (const Failure& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("is not done after"), std::string::npos) << message;
  EXPECT_NE(message.find("waiting for rank"), std::string::npos) << message;
}

}  // namespace
}  // namespace convoy::comm
