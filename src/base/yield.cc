#include "base/yield.h"

#include <sched.h>

#include "convoy/base/clock.h"

namespace convoy {
namespace {

constexpr auto kLong = std::chrono::microseconds(50);
constexpr auto kPause = std::chrono::milliseconds(100);  // a turn of others is 3 to 6 ms

thread_local Clock::time_point no_yield_before;

}  // namespace

bool yield_briefly() {
  const auto before = Clock::now();
  if (before < no_yield_before) return false;
  sched_yield();
  const auto after = Clock::now();
  if (after - before <= kLong) return true;
  no_yield_before = after + kPause;
  return false;
}

}  // namespace convoy
