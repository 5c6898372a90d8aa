#include "cli/server/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "cli/launch/report.h"
#include "cli/training/signals.h"

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

// Before there is anything to be saved.
TEST(TrainingSignals, EndAtOnceWithTheStatusThatAsksForAnotherStart) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    const auto set_up = [signal] {
      end_at_stop_signals("nothing was lost");
      raise(SIGPIPE);
      raise(signal);
      std::_Exit(1);
    };
    EXPECT_EXIT(set_up(), testing::ExitedWithCode(kExitRequeue), "^nothing was lost$");
  }
  const auto in_the_background = [] {
    for (const int signal : {SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
    end_at_stop_signals(nullptr);
    for (const int signal : {SIGINT, SIGHUP}) raise(signal);
    std::_Exit(0);
  };
  EXPECT_EXIT(in_the_background(), testing::ExitedWithCode(0), "^$");
}

// The program has held it back since it was started.
TEST(TrainingSignals, OneThatCameBeforeTheyAreCaughtIsHeard) {
  for (const bool set_up : {true, false}) {
    const auto start = [set_up] {
      sigset_t signals;
      sigemptyset(&signals);
      sigaddset(&signals, SIGUSR1);
      sigprocmask(SIG_BLOCK, &signals, nullptr);
      raise(SIGUSR1);
      if (set_up) end_at_stop_signals("nothing was lost");
      catch_stop_signals();
      std::_Exit(stop_signal_came() ? 0 : 2);
    };
    EXPECT_EXIT(start(), testing::ExitedWithCode(set_up ? kExitRequeue : 0),
                set_up ? "^nothing was lost$" : "^$");
  }
}

TEST(TrainingSignals, AreNotedOnceThereIs) {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    const auto train = [signal] {
      end_at_stop_signals("nothing was lost");
      catch_stop_signals();
      if (stop_signal_came()) std::_Exit(1);
      raise(signal);
      std::_Exit(stop_signal_came() ? 0 : 2);
    };
    EXPECT_EXIT(train(), testing::ExitedWithCode(0), "^$");
  }
}

TEST(TrainingSignals, MayBeAnsweredByAnyThread) {
  const auto set_up = [] {
    catch_stop_signals();
    raise(SIGUSR1);
    std::thread([] {
      end_to_be_started_again(stop_signal_came() ? "nothing was lost" : nullptr);
    }).join();
  };
  EXPECT_EXIT(set_up(), testing::ExitedWithCode(kExitRequeue), "^nothing was lost$");
}

}  // namespace
}  // namespace convoy::cli
