// The collectives over MPI ranks, started by mpirun.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "convoy/base/system.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/in_flight_reference.h"
#include "tests/comm/ranks_main.h"
#include "tests/comm/reference.h"
#include "tests/comm/shared_reference.h"

namespace {

using namespace convoy::comm;

TEST(Mpi, CollectivesGiveWhatASerialProgramComputes) {
  check_all_collectives(test_world().communicator());
}
TEST(Mpi, MatchByKeyInAnyOrder) { check_matching(test_world().communicator()); }

TEST(Mpi, PartsOfTheWorld) {
  const Communicator& all = test_world().communicator();
  const Communicator part = all.split(all.rank() % 2, -all.rank());
  check_all_collectives(part);
  check_matching(all.duplicate());
}

TEST(Mpi, EveryAllreduceAlgorithmTypeAndOperation) {
  check_every_allreduce(test_world().communicator());
}
TEST(Mpi, TheBitsOfAllreduceAreFixed) { check_allreduce_bits(test_world().communicator()); }

TEST(Mpi, RegisteredAndOrdinaryMemory) { check_shared_memory(test_world().communicator()); }
TEST(Mpi, ManyAtOnceInAnyOrder) { check_crowd(test_world().communicator()); }

// Whoever starts the ranks, and whether or not it binds them.
TEST(Mpi, RanksShareTheCoresAndYieldWhereTheyAreMore) {
  const World& world = test_world();
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  std::vector<std::int32_t> together{world.cores()};
  world.communicator().allreduce(buffer_of(together), ReduceOp::sum);
  EXPECT_LE(together[0], std::max(world.size(), cores));
  const bool open_mpi = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE") != nullptr;
  if (open_mpi && world.local_size() > static_cast<int>(convoy::usable_cores().size())) {
    EXPECT_EQ(convoy::environment("OMPI_MCA_mpi_yield_when_idle"), "1");
  }
}

TEST(Mpi, HardNumbersHaveTheSameBitsOnEveryRank) {
  check_hard_bits(test_world().communicator());
  check_hard_bits(on_hosts(test_world().communicator(), 1));
}

TEST(Mpi, BurstsInAnyOrder) { check_bursts(test_world().communicator()); }
TEST(Mpi, OperationsOutliveTheirCommunicator) {
  const Communicator& all = test_world().communicator();
  check_orphans([&] { return all.duplicate(); });
  check_orphans([&] { return on_hosts(all, 1); });
}

// As if each rank were on a host of its own: what otherwise goes through shared memory moves in
// messages.
TEST(Mpi, MessagesAlone) {
  const Communicator alone = on_hosts(test_world().communicator(), 1);
  check_all_collectives(alone);
  check_matching(alone);
  check_crowd(alone);
  const Communicator reproducible =
      on_hosts(test_world().communicator().with_reproducible(true), 1);
  check_all_collectives(reproducible);
}

TEST(Mpi, LargeMessages) {
  std::vector<float> data(6'000'000, 1);
  test_world().communicator().allreduce(buffer_of(data), ReduceOp::sum);
  EXPECT_EQ(data.front(), static_cast<float>(test_world().size()));
  EXPECT_EQ(data.back(), static_cast<float>(test_world().size()));
}

}  // namespace
