// One rank that does nothing but allreduce, small and large, until somebody ends it.
#include <cstdio>
#include <vector>

#include "convoy/comm/world.h"

int main() {
  convoy::comm::World world = convoy::comm::World::join();
  const convoy::comm::Communicator& all = world.communicator();
  std::vector<float> small(100), large(1 << 20);
  for (int i = 0;; ++i) {
    all.allreduce(std::span(large), convoy::comm::ReduceOp::max);
    all.allreduce(std::span(small), convoy::comm::ReduceOp::max);
    if (i > 0) continue;
    std::printf("ready %d\n", world.rank());
    std::fflush(stdout);
  }
}
