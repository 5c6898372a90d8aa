// A program that uses MPI itself hands its communicator over.
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/comm/mpi.h"
#include "tests/comm/reference.h"

namespace {

using namespace convoy::comm;

TEST(Adopt, WorksBesideTheProgramsOwnMessages) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int token = rank;
  int theirs = -1;
  MPI_Request requests[2];  // in flight across the life of a world
  MPI_Irecv(&theirs, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[0]);
  {
    World world = adopt(MPI_COMM_WORLD);
    EXPECT_EQ(world.rank(), rank);
    check_all_collectives(world.communicator());
  }
  MPI_Isend(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  EXPECT_EQ(theirs, (rank + size - 1) % size);
}

TEST(Adopt, TakesAPartOfTheRanks) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? 0 : 1, 0, &part);
  {
    World world = adopt(part);
    check_matching(world.communicator());
  }
  MPI_Comm_free(&part);
}

TEST(Adopt, JoinRefusesAnInitializedMpi) {
  try {
    World::join();
    FAIL() << "join() must not take over an MPI that the program has initialized";
  } catch (const convoy::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("adopt"), std::string::npos);
  }
}

TEST(Adopt, TellsTheThreadLevelItNeeds) {
  // The level of this program is MULTIPLE or FUNNELED (see main): both ways are run.
  int level = 0;
  MPI_Query_thread(&level);
  WorldOptions options;
  options.progress = Progress::thread;
  if (level == MPI_THREAD_MULTIPLE) {
    World world = adopt(MPI_COMM_WORLD, options);
    check_matching(world.communicator());
    return;
  }
  try {
    adopt(MPI_COMM_WORLD, options);
    FAIL() << "a progress thread beside MPI_THREAD_FUNNELED is wrong";
  } catch (const convoy::UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("MPI_THREAD_MULTIPLE"), std::string::npos);
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int level = 0;
  MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &level);
  const int failed = RUN_ALL_TESTS();
  MPI_Finalize();
  return failed;
}
