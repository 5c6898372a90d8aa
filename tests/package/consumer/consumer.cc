// A program of somebody who installed Convoy and wants its epoch order and its planner alone.
#include <convoy/data/epoch_order.h>
#include <convoy/plan/convergence.h>

#include <cstdio>

int main() {
  const convoy::data::EpochOrder order(10, /*seed=*/1, /*epoch=*/0);
  convoy::data::EpochCursor cursor(order.size(), 0, /*rank=*/1, /*world=*/2);
  while (!cursor.done()) {
    for (std::size_t sample : order.samples(cursor.next(/*batch=*/4))) {
      std::printf("%zu ", sample);
    }
  }
  std::printf("\n");
  convoy::plan::Machine machine;
  machine.seconds_per_sample = 1e-3;
  machine.knee_samples = 8;
  return convoy::plan::optimal_batch({100, 1000}, machine, /*workers=*/1) == 8 ? 0 : 1;
}
