// What becomes of processes that don't end by themselves, on processes of this test.
#include "cli/launch/processes.h"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "cli/job/orphans.h"
#include "cli/launch/child.h"
#include "convoy/base/clock.h"
#include "tests/base/patience.h"
#include "tests/base/scratch.h"

namespace convoy::cli {
namespace {

// A script of sh that has said "ready".
class Script {
 public:
  explicit Script(const std::string& text, const std::string& shell = "/bin/sh")
      : child_(start_child({shell, "-c", text}, {.capture_output = true})) {
    char byte = 0;
    while (byte != '\n' && read(child_.standard_output.get(), &byte, 1) == 1) {
    }
  }
  ~Script() {
    kill(-child_.pid, SIGKILL);
    waitpid(child_.pid, nullptr, 0);
  }
  Script(const Script&) = delete;

  pid_t pid() const { return child_.pid; }
  // Of those that have not ended.
  std::vector<pid_t> children() const { return children_of(child_.pid); }

 private:
  Child child_;
};

// Whether `done` becomes true.
template <class Condition>
bool comes(const Condition& done) {
  const auto begin = Clock::now();
  while (!done()) {
    if (seconds_since(begin) > test::patience_s()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

const char* const kStubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

TEST(Orphans, WhatWasUnderOneThatIsGivenUpIsKilled) {
  Script parent(std::string("sh -c \"") + kStubborn + "\" & while :; do wait; sleep 0.05; done");
  const std::vector<pid_t> children = parent.children();
  ASSERT_EQ(children.size(), 1u);
  Orphans orphans;
  orphans.give_up(parent.pid());
  EXPECT_EQ(orphans.take_given_up(), std::vector<pid_t>{parent.pid()});
  EXPECT_TRUE(orphans.end({}));
  EXPECT_TRUE(comes([&] { return !orphans.end({}); }));
  EXPECT_FALSE(find_process(children[0])) << "was not killed";
  EXPECT_TRUE(find_process(parent.pid()));
  EXPECT_EQ(orphans.take_given_up(), std::vector<pid_t>{});
  EXPECT_EQ(orphans.given_up(), std::set<pid_t>{parent.pid()});
}

TEST(Orphans, WhatOneThatIsGivenUpGoesOnStartingIsNotWaitedFor) {
  Script parent("echo ready; while :; do sleep 0.01; done");
  Orphans orphans;
  orphans.give_up(parent.pid());
  EXPECT_TRUE(comes([&] { return !orphans.end({}); }));
}

TEST(Orphans, OneThatWasGivenUpAndHasEndedIsForgotten) {
  Orphans orphans;
  {
    Script script(kStubborn);
    orphans.give_up(script.pid());
    kill(script.pid(), SIGKILL);
    EXPECT_TRUE(comes([&] { return orphans.given_up().empty(); }));
    EXPECT_TRUE(orphans.reaped(script.pid()));
    EXPECT_FALSE(orphans.reaped(script.pid()));
  }
}

TEST(Orphans, AnotherProcessWithTheNumberOfOneThatWasGivenUpIsEnded) {
  Orphans orphans;
  pid_t number = 0;
  {
    Script script("echo ready; exec sleep 1000");
    number = script.pid();
    orphans.give_up(number);
  }
  constexpr auto kTicks = std::chrono::milliseconds(50);  // several of a clock of 100 Hz
  std::this_thread::sleep_for(kTicks);
  clone_args as_fork{};
  as_fork.exit_signal = SIGCHLD;
  as_fork.set_tid = reinterpret_cast<std::uintptr_t>(&number);
  as_fork.set_tid_size = 1;
  const pid_t another = static_cast<pid_t>(syscall(SYS_clone3, &as_fork, sizeof as_fork));
  if (another == 0) {
    while (true) pause();
  }
  if (another < 0) GTEST_SKIP() << "only root can choose a number";
  ASSERT_EQ(another, number);
  EXPECT_TRUE(orphans.end({}));
  kill(another, SIGKILL);
  waitpid(another, nullptr, 0);
}

// A supervisor is known by its name; ending_test.cc has the times.
TEST(Leftovers, BesideASupervisorAreNotTold) {
  const test::Scratch scratch;
  const std::string agent = scratch.path("convoy-agent");
  std::filesystem::copy_file("/bin/sh", agent);
  Script other("cd " + scratch.path() +
               "; trap 'touch told' TERM; trap 'touch asked' USR1; echo ready; "
               "while :; do sleep 0.01; done");
  const auto is_there = [&](const char* name) {
    return std::filesystem::exists(scratch.path(name));
  };
  Leftovers leftovers;
  {
    const Script supervisor("echo ready; while :; do sleep 0.05; done", agent);
    leftovers.end({other.pid(), supervisor.pid()});
    // What came before this signal has been looked at with it.
    kill(other.pid(), SIGUSR1);
    ASSERT_TRUE(comes([&] { return is_there("asked"); }));
    EXPECT_FALSE(is_there("told"));
  }
  leftovers.end({other.pid()});
  EXPECT_TRUE(comes([&] { return is_there("told"); }));
}

// In a process of its own, whose signals it changes.
TEST(TakesSignal, OfOneThatCatchesWaitsForOrIgnoresIt) {
  const auto ask = [] {
    const auto takes = [](int signal) { return takes_signal(getpid(), signal); };
    sigset_t mask;
    sigemptyset(&mask);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    for (const int signal : {SIGUSR1, SIGUSR2, SIGALRM}) std::signal(signal, SIG_DFL);
    if (takes(SIGUSR1) || takes(SIGUSR2) || takes(SIGALRM)) std::_Exit(1);
    std::signal(SIGUSR1, [](int) {});
    if (!takes(SIGUSR1) || takes(SIGUSR2)) std::_Exit(2);
    std::signal(SIGUSR2, SIG_IGN);
    sigaddset(&mask, SIGALRM);
    sigprocmask(SIG_BLOCK, &mask, nullptr);
    if (!takes(SIGUSR2) || !takes(SIGALRM)) std::_Exit(3);
    std::_Exit(0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
  EXPECT_FALSE(takes_signal(0, SIGUSR1)) << "there is none";
}

TEST(Leftovers, AreKilledASecondAfterTheyWereTold) {
  Script stubborn(kStubborn);
  Leftovers leftovers;
  const auto begin = Clock::now();
  int status = 0;
  ASSERT_TRUE(comes([&] {
    leftovers.end({stubborn.pid()});
    return waitpid(stubborn.pid(), &status, WNOHANG) == stubborn.pid();
  }));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_GE(seconds_since(begin), 1);
}

// By its name alone: its arguments would take as long as it hangs.
TEST(AtOnce, SparesAnMpirunAndWhatLeadsToIt) {
  const test::Scratch scratch;
  const std::string mpirun = scratch.path("mpirun");
  std::filesystem::copy_file("/bin/sh", mpirun);
  Script script("sleep 1000 & sh -c \"" + mpirun +
                " -c 'sleep 1000 & echo ready; wait'; true\"; true");
  // The first of its children has become another program by then, whatever the others do.
  ASSERT_TRUE(comes([&] {
    const std::vector<pid_t> children = script.children();
    return std::any_of(children.begin(), children.end(),
                       [](pid_t child) { return name_of(child) == "sleep"; });
  }));
  const AtOnce found = at_once(getpid());
  ASSERT_EQ(found.mpiruns.size(), 1u);
  EXPECT_EQ(name_of(found.mpiruns[0]), "mpirun");
  EXPECT_EQ(found.above_mpirun.size(), 2u);
  EXPECT_EQ(found.above_mpirun[0], script.pid());
  ASSERT_EQ(found.to_kill.size(), 1u);
  EXPECT_EQ(name_of(found.to_kill[0]), "sleep");
}

// Its files and locks are let go of by the last of its threads, and a killed process may end its
// first one long before.
TEST(FindProcess, FindsOneWhoseFirstThreadAloneHasEnded) {
  const pid_t child = fork();
  if (child == 0) {
    std::thread([] {
      for (;;) pause();
    }).detach();
    syscall(SYS_exit, 0);  // of this thread alone
  }
  ASSERT_GT(child, 0);
  const auto state = [&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string number, name, word;
    stat >> number >> name >> word;
    return word;
  };
  ASSERT_TRUE(comes([&] { return state() == "Z"; }));
  EXPECT_TRUE(find_process(child));
  kill(child, SIGKILL);
  ASSERT_TRUE(comes([&] { return !find_process(child); }));
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace convoy::cli
