// How a thread that waits leaves its core to others.
#include "base/yield.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "convoy/base/clock.h"
#include "tests/base/patience.h"

namespace convoy {
namespace {

// Binds the calling thread, and those that it starts later, to the core it is on.
void stay_on_one_core() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

bool becomes(bool answer) {
  const auto start = Clock::now();
  while (seconds_since(start) < test::patience_s())
    if (yield_briefly() == answer) return true;
  return false;
}

TEST(Yield, IsNotTriedAgainWhereOthersCompute) {
  std::thread([] {
    stay_on_one_core();
    std::atomic<bool> stop = false;
    std::thread busy([&] {
      while (!stop) {
      }
    });
    EXPECT_TRUE(becomes(false));
    stop = true;
    busy.join();
    EXPECT_TRUE(becomes(true)) << "it was never tried again";
  }).join();
}

}  // namespace
}  // namespace convoy
