#include "cli/server/stop_signals.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace convoy::cli {
namespace {

// In a process of its own, whose signals it changes.
TEST(StopSignals, AreThoseThatEndAProcessAndNoOthers) {
  const auto serve = [] {
    StopSignals signals;
    raise(SIGUSR1);
    raise(SIGUSR2);
    if (signals.came()) std::_Exit(1);
    raise(SIGTERM);
    std::_Exit(signals.came() ? 0 : 2);
  };
  EXPECT_EXIT(serve(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace convoy::cli
