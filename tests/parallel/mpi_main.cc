// Joins the world once for all tests of a program started by mpirun.
#include <gtest/gtest.h>

#include "tests/parallel/mpi_main.h"

namespace convoy {
namespace {
World* the_world = nullptr;
}
World& test_world() { return *the_world; }
}  // namespace convoy

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  torch::set_num_threads(1);
  convoy::World world = convoy::World::join();
  convoy::the_world = &world;
  const int failed = RUN_ALL_TESTS();
  world.close();
  return failed;
}
