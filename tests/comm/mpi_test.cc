// The collectives over MPI ranks, started by mpirun.
#include <gtest/gtest.h>

#include "convoy/comm/world.h"
#include "tests/comm/allreduce_reference.h"
#include "tests/comm/reference.h"
#include "tests/comm/shared_reference.h"

namespace {

convoy::comm::World* the_world = nullptr;  // made in main: a process joins once

using namespace convoy::comm;

TEST(Mpi, CollectivesGiveWhatASerialProgramComputes) {
  check_all_collectives(the_world->communicator());
}
TEST(Mpi, MatchByKeyInAnyOrder) { check_matching(the_world->communicator()); }

TEST(Mpi, PartsOfTheWorld) {
  const Communicator& all = the_world->communicator();
  const Communicator part = all.split(all.rank() % 2, -all.rank());
  check_all_collectives(part);
  check_matching(all.duplicate());
}

TEST(Mpi, EveryAllreduceAlgorithmTypeAndOperation) {
  check_every_allreduce(the_world->communicator());
}
TEST(Mpi, TheBitsOfAllreduceAreFixed) { check_allreduce_bits(the_world->communicator()); }

TEST(Mpi, RegisteredAndOrdinaryMemory) { check_shared_memory(the_world->communicator()); }
TEST(Mpi, ManyAtOnceInAnyOrder) { check_crowd(the_world->communicator()); }

TEST(Mpi, LargeMessages) {
  std::vector<float> data(6'000'000, 1);
  the_world->communicator().allreduce(buffer_of(data), ReduceOp::sum);
  EXPECT_EQ(data.front(), static_cast<float>(the_world->size()));
  EXPECT_EQ(data.back(), static_cast<float>(the_world->size()));
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  convoy::comm::World world = convoy::comm::World::join();
  the_world = &world;
  const int failed = RUN_ALL_TESTS();
  world.close();
  return failed;
}
