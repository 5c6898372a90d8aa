// How jobs are brought to their end, step by step, in made-up time.
#include "cli/launch/ending.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "cli/agent/program_end.h"
#include "cli/job/role_patience.h"
#include "cli/launch/held_signals.h"
#include "cli/launch/processes.h"

namespace convoy::cli {
namespace {

// As the launcher does until all supervisors stand, and these until their programs catch a signal.
TEST(HeldSignals, AreThereForWhoeverTakesThemLater) {
  HeldSignals held;
  for (const int signal : {SIGUSR2, SIGUSR1, SIGUSR2}) held.add(signal);
  EXPECT_TRUE(held.take([](int) { return false; }).empty());
  EXPECT_TRUE(held.any());
  EXPECT_EQ(held.take([](int signal) { return signal == SIGUSR1; }), std::vector<int>{SIGUSR1});
  EXPECT_EQ(held.take([](int) { return true; }), std::vector<int>{SIGUSR2});
  EXPECT_FALSE(held.any());
  held.add(SIGUSR1);
  held.forget();
  EXPECT_TRUE(held.take([](int) { return true; }).empty());
}

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Phase = Ending::Phase;
using Step = Ending::Step;

// The promise of `convoy run` and `convoy job`: so long after a death nothing is left.
constexpr milliseconds kPromise{10'000};

const Clock::time_point kBegin{1h};

// When the steps of an ending came, after the begin.
struct Walk {
  std::map<Step, milliseconds> steps;
  std::optional<milliseconds> given_up;
};

// Looks at a job that reacts to nothing, as the launcher does, which may be as late as it allows
// itself; `seen` of each look while the job runs.
Walk walk(Ending& ending, const std::function<Ending::Seen(Clock::time_point)>& seen,
          milliseconds first_look = 0ms) {
  Walk found;
  for (auto now = kBegin + first_look; now < kBegin + 1min; now += kLookOften) {
    const Step step = ending.next(now, ending.running() ? seen(now) : Ending::Seen());
    const auto after = std::chrono::duration_cast<milliseconds>(now - kBegin);
    if (step != Step::none) EXPECT_TRUE(found.steps.emplace(step, after).second);
    if (ending.phase() == Phase::given_up) {
      found.given_up = after;
      break;
    }
  }
  return found;
}

Ending::Seen failed(Clock::time_point) { return {.failed = true}; }

TEST(Ending, AJobThatRunsIsLeftAlone) {
  Ending ending(kKillPatience);
  const Walk found = walk(ending, [](Clock::time_point) { return Ending::Seen(); });
  EXPECT_TRUE(found.steps.empty());
  EXPECT_TRUE(ending.running());
}

TEST(Ending, AfterAFailureEachStepWaitsForTheOneBefore) {
  Ending ending(kKillPatience);
  const Walk found = walk(ending, failed);
  EXPECT_EQ(found.steps, (std::map<Step, milliseconds>{{Step::end_ranks, 500ms},
                                                       {Step::ask_mpirun, 4500ms},
                                                       {Step::kill_mpirun, 7000ms}}));
  EXPECT_EQ(found.given_up, 11s);  // that of an mpirun that hangs, which is named
  EXPECT_FALSE(ending.ranks_ended());
}

// Others that fail for the same reason say so meanwhile; a job that heals does not go on.
TEST(Ending, IsDecidedOnOnce) {
  Ending ending(kKillPatience);
  EXPECT_EQ(ending.next(kBegin, {.failed = true}), Step::none);
  EXPECT_EQ(ending.phase(), Phase::last_words);
  EXPECT_EQ(ending.next(kBegin + 400ms, {}), Step::none);
  EXPECT_EQ(ending.next(kBegin + 500ms, {}), Step::end_ranks);
  ending.told(kBegin + 600ms, 1h);
  EXPECT_EQ(ending.phase(), Phase::ranks_asked);
}

TEST(Ending, WhoIsToldHasNoLastWords) {
  Ending ending(kKillPatience);
  ending.told(kBegin, 0s);
  const Walk found = walk(ending, failed);
  EXPECT_EQ(found.steps.at(Step::end_ranks), 0ms);
  EXPECT_EQ(found.steps.at(Step::ask_mpirun), 4000ms);
}

TEST(Ending, RanksThatAreToldHaveTheirGrace) {
  Ending ending(kKillPatience);
  ending.told(kBegin, 20s);
  const Walk found = walk(ending, [](Clock::time_point) { return Ending::Seen(); });
  // Decided at one look, done at the next.
  EXPECT_EQ(found.steps.at(Step::end_ranks), 20s + kLookOften);
}

TEST(Ending, AFailureWithinTheGraceEndsTheRest) {
  Ending ending(kKillPatience);
  ending.told(kBegin, 20s);
  const Walk found = walk(ending, [](Clock::time_point now) {
    return Ending::Seen{now >= kBegin + 5s, false};
  });
  EXPECT_EQ(found.steps.at(Step::end_ranks), 5500ms);
}

TEST(Ending, WhoIsToldTwiceHasNoPatience) {
  for (const milliseconds later : {0ms, 200ms, 600ms, 3000ms}) {
    Ending ending(kKillPatience);
    ending.told(kBegin, 1h);
    for (milliseconds at = 0ms; at <= later; at += 100ms)
      ending.next(kBegin + at, {.failed = true});
    EXPECT_EQ(ending.told_again(kBegin + later), Step::ask_mpirun);
    EXPECT_EQ(ending.told_again(kBegin + later + 1ms), Step::none);
    EXPECT_EQ(ending.next(kBegin + later + 2499ms, {}), Step::none);
    EXPECT_EQ(ending.next(kBegin + later + 2500ms, {}), Step::kill_mpirun);
    EXPECT_EQ(ending.told_again(kBegin + later + 2501ms), Step::none);
  }
}

// What all ranks have left behind may hold mpirun's pipes, and outlive SIGKILL.
TEST(Ending, WhatRanksHaveLeftIsNotWaitedForForLong) {
  Ending ending(kKillPatience);
  const Walk found = walk(ending, [](Clock::time_point now) {
    return Ending::Seen{false, now != kBegin + 3s};  // once there was nothing left
  });
  EXPECT_EQ(found.steps.at(Step::ask_mpirun), 3s + kLookOften + kKillPatience);
  EXPECT_EQ(found.steps.count(Step::end_ranks), 0u);
  EXPECT_TRUE(ending.ranks_ended());
}

TEST(MissingReport, IsWaitedForForASecond) {
  MissingReport report;
  EXPECT_FALSE(report.waits());
  for (milliseconds at = 0ms; at < kReportDelay; at += kLookOften) {
    EXPECT_FALSE(report.next(kBegin + at, true)) << at.count();
    EXPECT_TRUE(report.waits());
  }
  EXPECT_TRUE(report.next(kBegin + kReportDelay, true));
}

// Whoever passes it on waits for a core as long.
TEST(MissingReport, TimeInWhichTheLauncherDidNotRunIsNone) {
  MissingReport report;
  int looks = 0;
  for (auto now = kBegin; !report.next(now, true); now += 30s) ++looks;
  EXPECT_EQ(looks, kReportDelay / kLookOften);
}

TEST(MissingReport, LooksThatOutputCausesAreNoSecond) {
  MissingReport report;
  for (auto now = kBegin; now < kBegin + 999ms; now += 1ms) EXPECT_FALSE(report.next(now, true));
  EXPECT_TRUE(report.next(kBegin + 1s, true));
}

TEST(MissingReport, ThatComesLateIsNone) {
  MissingReport report;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(report.next(kBegin + i * kLookOften, true));
  EXPECT_FALSE(report.next(kBegin + 1s, false));
  EXPECT_FALSE(report.waits());
  EXPECT_FALSE(report.next(kBegin + 2s, true));  // another one
}

// Ranks that trap SIGTERM are killed by their supervisors before mpirun is asked, which would not
// give them that time.
TEST(Promise, SupervisorsEndTheirRanksBeforeMpirunIsAsked) {
  Ending ending(kKillPatience);
  const Walk found = walk(ending, failed);
  ProgramEnd program(kGrace, false);
  const auto asked = kBegin + found.steps.at(Step::end_ranks);
  EXPECT_TRUE(program.ask(asked));
  EXPECT_FALSE(program.ask(asked + 1s));  // by mpirun, too
  EXPECT_FALSE(program.is_over(asked + 2999ms));
  EXPECT_TRUE(program.is_over(asked + 3s));
  EXPECT_LT(asked + kGrace + 2 * kLookOften, kBegin + found.steps.at(Step::ask_mpirun));
}

// The worst that can come: nothing reacts but to SIGKILL.
TEST(Promise, OfARankThatIsKilled) {
  Ending ending(kKillPatience);
  const milliseconds killed = walk(ending, failed).steps.at(Step::kill_mpirun);
  EXPECT_LT(killed + kAwaitOrphans + kLookOften, kPromise);
}

TEST(Promise, OfASupervisorThatIsKilled) {
  Ending ending(kKillPatience);
  MissingReport report;
  // It dies right behind a look.
  const Walk found = walk(
      ending,
      [&](Clock::time_point now) {
        return Ending::Seen{report.next(now, true), false};
      },
      kLook);
  EXPECT_EQ(found.steps.at(Step::end_ranks), kLook + kReportDelay + kLastWords);
  EXPECT_LT(found.steps.at(Step::kill_mpirun) + kAwaitOrphans + kLookOften, kPromise);
}

TEST(Promise, OfWhatRanksHaveLeft) {
  Ending ending(kKillPatience);
  const Walk found = walk(
      ending,
      [](Clock::time_point) {
        return Ending::Seen{false, true};
      },
      kLook);
  const milliseconds killed = found.steps.at(Step::kill_mpirun);
  EXPECT_LT(killed + kAwaitOrphans + kKillOrphans, kPromise);
}

// Its mpirun dies with the launcher, and supervisors see that.
TEST(Promise, OfALauncherThatIsKilled) {
  const ProgramEnd rank(kGrace, false);
  const Clock::time_point seen = kBegin + kParentCheck;
  EXPECT_EQ(rank.orphaned(seen), seen);  // it is killed at once
  EXPECT_LT(kParentCheck + kKillLeftovers, kPromise);
}

// Until the last of these is killed, which are there from the begin.
milliseconds end_of(Leftovers& leftovers, Clock::time_point begin, bool of_mpi_job) {
  const std::vector<Process> left{{11, 1}, {12, 1}};
  for (auto now = begin; now < begin + 1min; now += 5ms) {
    const Leftovers::Due due = leftovers.next(now, left, of_mpi_job);
    if (due.killed.size() == left.size())
      return std::chrono::duration_cast<milliseconds>(now - begin);
  }
  ADD_FAILURE() << "they are never killed";
  return 1h;
}

// A role that is `convoy run`, and has not come to an end when its grace is over: its mpirun is
// given what it needs to end the ranks.
TEST(Promise, OfAJobThatIsKilled) {
  for (const milliseconds grace : {0ms, 1000ms, 10'000ms, 1'000'000ms}) {
    const ProgramEnd role(grace, true);
    const Clock::time_point until = role.orphaned(kBegin);
    EXPECT_EQ(until, kBegin + std::min(grace, kOrphanedRole));
    Leftovers leftovers;
    const milliseconds rest = end_of(leftovers, until, true);
    EXPECT_LT(until + rest, kBegin + kPromise) << grace.count();
  }
}

TEST(LeftoversInTime, AreToldAndKilledASecondLater) {
  Leftovers leftovers;
  EXPECT_EQ(leftovers.next(kBegin, {{11, 1}}, false).terminated, std::vector<pid_t>{11});
  EXPECT_TRUE(leftovers.next(kBegin + 1ms, {{11, 1}}, false).terminated.empty());
  EXPECT_TRUE(leftovers.next(kBegin + 999ms, {{11, 1}}, false).killed.empty());
  const Leftovers::Due due = leftovers.next(kBegin + 1s, {{11, 1}}, false);
  EXPECT_EQ(due.killed, std::vector<pid_t>{11});
  EXPECT_TRUE(due.lasting.empty());
  EXPECT_EQ(leftovers.next(kBegin + 1s + kKillPatience, {{11, 1}}, false).lasting,
            std::vector<pid_t>{11});
}

// An mpirun has been told by its parent's death; a second time it would leave its files behind.
TEST(LeftoversInTime, OfAnMpiJobAreFirstLeftAlone) {
  Leftovers leftovers;
  for (milliseconds at = 0ms; at < Leftovers::kAlone; at += 10ms) {
    const Leftovers::Due due = leftovers.next(kBegin + at, {{11, 1}}, true);
    EXPECT_TRUE(due.terminated.empty() && due.killed.empty());
  }
  EXPECT_EQ(leftovers.next(kBegin + 4s, {{11, 1}}, true).terminated, std::vector<pid_t>{11});
}

// Also where the supervisor that had delayed that is gone by then.
TEST(LeftoversInTime, HaveASecondAfterTheyWereTold) {
  Leftovers leftovers;
  leftovers.next(kBegin, {{11, 1}, {12, 1}}, true);
  EXPECT_EQ(leftovers.next(kBegin + 4s, {{11, 1}, {12, 1}}, true).terminated.size(), 2u);
  EXPECT_TRUE(leftovers.next(kBegin + 4999ms, {{11, 1}}, false).killed.empty());
  EXPECT_EQ(leftovers.next(kBegin + 5s, {{11, 1}}, false).killed, std::vector<pid_t>{11});
}

// Where the supervisor ends at once, nothing is waited for any more.
TEST(LeftoversInTime, AreToldWhenTheLastOfAnMpiJobIsGone) {
  Leftovers leftovers;
  EXPECT_TRUE(leftovers.next(kBegin, {{11, 1}, {12, 1}}, true).terminated.empty());
  EXPECT_EQ(leftovers.next(kBegin + 10ms, {{11, 1}}, false).terminated, std::vector<pid_t>{11});
}

TEST(LeftoversInTime, ANumberThatComesAgainIsAnotherProcess) {
  Leftovers leftovers;
  leftovers.next(kBegin, {{11, 1}}, false);
  const Leftovers::Due due = leftovers.next(kBegin + 1min, {{11, 2}}, false);
  EXPECT_EQ(due.terminated, std::vector<pid_t>{11});
  EXPECT_TRUE(due.killed.empty());
}

TEST(RolePatience, IsOverAfterTheGraceAndItsSupervisorsShare) {
  RolePatience patience;
  EXPECT_FALSE(patience.next(kBegin));
  patience.told(kBegin, 10s);
  EXPECT_FALSE(patience.next(kBegin + 17999ms));
  EXPECT_TRUE(patience.next(kBegin + 18s));
  EXPECT_FALSE(patience.next(kBegin + 18s + kInsist - 1ms));
  EXPECT_TRUE(patience.next(kBegin + 18s + kInsist));
}

TEST(RolePatience, IsGoneWhenAJobIsToldTwice) {
  RolePatience patience;
  patience.told(kBegin, 1h);
  patience.told_again(kBegin + 1s);
  EXPECT_EQ(patience.due(), kBegin + 1s + kInsist);
  EXPECT_TRUE(patience.next(kBegin + 1s + kInsist));
}

TEST(KillPatience, AnMpirunHasItsShare) {
  KillPatience patience;
  EXPECT_TRUE(patience.tell_mpirun(kBegin));
  EXPECT_FALSE(patience.tell_mpirun(kBegin + 1s));
  EXPECT_FALSE(patience.kill(kBegin + 4999ms, true));
  EXPECT_FALSE(patience.is_over(kBegin + 1h));  // it was not killed
  EXPECT_TRUE(patience.kill(kBegin + 5s, true));
  EXPECT_TRUE(patience.kill(kBegin + 8s, true));
  EXPECT_FALSE(patience.is_over(kBegin + 8999ms));
  EXPECT_TRUE(patience.is_over(kBegin + 9s));
}

TEST(KillPatience, OthersAreKilledAtOnce) {
  KillPatience patience;
  EXPECT_TRUE(patience.kill(kBegin, false));
  EXPECT_TRUE(patience.is_over(kBegin + kKillPatience));
}

}  // namespace
}  // namespace convoy::cli
