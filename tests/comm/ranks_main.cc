#include "tests/comm/ranks_main.h"

#include <gtest/gtest.h>

namespace convoy::comm {
namespace {
World* the_world = nullptr;
}
World& test_world() { return *the_world; }
}  // namespace convoy::comm

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  convoy::comm::World world = convoy::comm::World::join();
  convoy::comm::the_world = &world;
  const int failed = RUN_ALL_TESTS();
  world.close();
  return failed;
}
