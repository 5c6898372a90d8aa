// Collectives through memory that the ranks of a host share; ranks are threads.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/world.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/shared_reference.h"

namespace convoy::comm {
namespace {

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

// Runs `body` on a thread whose /dev/shm holds so many bytes.
template <class F>
void with_little_shared_memory(const std::string& bytes, F&& body) {
  std::string problem;
  std::thread([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, ("size=" + bytes).c_str()) != 0) {
      problem = std::strerror(errno);
      return;
    }
    body();
  }).join();
  if (!problem.empty()) GTEST_SKIP() << "needs a mount namespace of its own: " << problem;
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

}  // namespace
}  // namespace convoy::comm
