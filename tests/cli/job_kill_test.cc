// Deaths of processes of `convoy job` at random moments. The promise: nothing is left after 10 s.
// On a machine that does other things as well it may take longer, so that the seconds are printed
// for people and only what is left for good fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "cli/launch/processes.h"
#include "tests/cli/job_script.h"

namespace convoy::cli {
namespace {

void pause_randomly(int most_ms) {
  static std::mt19937 random(std::random_device{}());
  std::this_thread::sleep_for(std::chrono::milliseconds(random() % static_cast<unsigned>(most_ms)));
}

// With children in sessions of their own.
const char* const kBrood =
    "setsid sh -c 'trap \"\" TERM HUP; echo ready; while :; do sleep 0.05; done' & "
    "touch $CONVOY_JOB_FOLDER/$$; echo ready; wait; sleep 1000";

// The first process of the job whose arguments hold all of these.
pid_t find(const Job& job, const std::vector<std::string>& words) {
  for (const JobProcess& process : job.processes()) {
    const bool all = std::all_of(words.begin(), words.end(), [&](const std::string& word) {
      return std::any_of(process.arguments.begin(), process.arguments.end(),
                         [&](const std::string& a) { return a.find(word) != a.npos; });
    });
    if (all) return process.pid;
  }
  return 0;
}

bool strike(pid_t pid) { return pid > 0 && kill(pid, SIGKILL) == 0; }

void expect_nothing_left(JobOfRoles& job) {
  const double seconds = job->wait_until_gone();
  std::printf("nothing is left after %.1f s\n", seconds);
  EXPECT_GE(seconds, 0);
  for (const auto& entry : std::filesystem::directory_iterator(job.temporary()))
    ADD_FAILURE() << entry.path() << " is left";
}

TEST(JobKill, TheJob) {
  JobOfRoles job(role("a", kBrood, "count = 2") + ranks("mpi", "work"));
  ASSERT_TRUE(job->wait_for("ready", 6));
  pause_randomly(200);
  ASSERT_TRUE(strike(job->pid()));
  expect_nothing_left(job);
}

TEST(JobKill, TheJobWhileItStarts) {
  for (const int most_ms : {30, 100, 300, 1000}) {
    JobOfRoles job(role("a", kBrood, "count = 5") + ranks("mpi", "work"));
    pause_randomly(most_ms);
    ASSERT_TRUE(strike(job->pid()));
    expect_nothing_left(job);
  }
}

TEST(JobKill, TheJobWhileItWaitsToStartARole) {
  JobOfRoles job(role("a", "echo ready; exit 1", "restart = 'on_failure'\ndelay_s = 1000"));
  ASSERT_TRUE(job->wait_for("ready", 1));
  pause_randomly(100);
  ASSERT_TRUE(strike(job->pid()));
  expect_nothing_left(job);
}

TEST(JobKill, TheJobWhileItStops) {
  JobOfRoles job(role("a", "trap '' TERM; echo ready; while :; do sleep 0.05; done", "count = 2") +
                 service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  kill(job->pid(), SIGTERM);
  pause_randomly(200);
  ASSERT_TRUE(strike(job->pid()));
  expect_nothing_left(job);
}

TEST(JobKill, ARole) {
  JobOfRoles job(role("a", kBrood) + service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  pause_randomly(200);
  // Its supervisor has the script among its arguments, too.
  const std::vector<pid_t> found = children_of(find(*job, {"--role-folder", "setsid"}));
  ASSERT_FALSE(found.empty());
  ASSERT_TRUE(strike(*std::min_element(found.begin(), found.end())));
  const JobResult result = job->finish();
  expect_nothing_left(job);
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(last_line(result.err),
            "convoy job: a was killed by signal 9 (Killed); the other role was ended");
}

TEST(JobKill, ASupervisor) {
  JobOfRoles job(role("a", kBrood) + service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  pause_randomly(200);
  ASSERT_TRUE(strike(find(*job, {"--role-folder", "setsid"})));
  const JobResult result = job->finish();
  expect_nothing_left(job);
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(last_line(result.err),
            "convoy job: a lost its supervisor, which was killed by signal 9 "
            "(Killed); the other role was ended");
}

TEST(JobKill, ASupervisorOfARoleThatIsStartedAgain) {
  JobOfRoles job(role("a", kBrood, "restart = 'on_failure'\ndelay_s = 0"));
  ASSERT_TRUE(job->wait_for("ready", 2));
  const pid_t supervisor = find(*job, {"--role-folder"});
  const std::vector<pid_t> first = descendants(supervisor);
  ASSERT_TRUE(strike(supervisor));
  ASSERT_TRUE(job->wait_for("ready", 4));
  for (const JobProcess& process : job->processes())
    EXPECT_EQ(std::count(first.begin(), first.end(), process.pid), 0) << "of the first run";
  kill(job->pid(), SIGTERM);
  job->finish();
  expect_nothing_left(job);
}

// Ranks of a role, beside a service, one process of which dies.
void expect_the_end_without(const std::string& work, pid_t (*victim)(const Job& job)) {
  JobOfRoles job(ranks("mpi", work) + service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  pause_randomly(200);
  ASSERT_TRUE(strike(victim(*job)));
  EXPECT_EQ(job->finish().exit_status, 1);
  expect_nothing_left(job);
}

pid_t supervisor_of_ranks(const Job& job) {
  return find(job, {"--role-folder", "cli_rank_program"});
}

TEST(JobKill, TheSupervisorOfRanks) { expect_the_end_without("stubborn", supervisor_of_ranks); }

TEST(JobKill, TheLauncherOfRanks) {
  expect_the_end_without("stubborn", [](const Job& job) {
    const std::vector<pid_t> launcher = children_of(supervisor_of_ranks(job));
    return launcher.size() == 1 ? launcher[0] : 0;
  });
}

TEST(JobKill, ARankOfARole) {
  expect_the_end_without("work", [](const Job& job) {
    const std::vector<JobProcess> ranks = job.processes("cli_rank_program");
    return ranks.empty() ? 0 : ranks[0].pid;
  });
}

TEST(JobKill, AllButMpirunWhenTheJobIsAskedTwice) {
  JobOfRoles job(ranks("mpi", "stubborn") + service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  kill(job->pid(), SIGTERM);
  pause_randomly(200);
  kill(job->pid(), SIGTERM);
  EXPECT_EQ(job->finish().exit_status, 128 + SIGTERM);
  expect_nothing_left(job);
}

// A role that is an mpirun. Its files are in TMPDIR.
TEST(JobKill, AnMpirunHasTheTimeToCleanUpWhenTheJobIsAskedTwice) {
  JobOfRoles job(role("mpi", "exec mpirun --oversubscribe -n 2 '" + rank_program() + "' stubborn",
                      "env = { OMPI_ALLOW_RUN_AS_ROOT = '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = '1' "
                      "}") +
                 service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  for (int times = 0; times < 2; ++times) {
    kill(job->pid(), SIGTERM);
    pause_randomly(100);
  }
  EXPECT_EQ(job->finish().exit_status, 128 + SIGTERM);
  expect_nothing_left(job);
}

// An mpirun that takes a while to clean up, and writes down how often it is told.
const char* const kSlowMpirun = R"(#!/bin/sh
if [ "$1" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit 0; fi
trap 'echo told >> $HERE/told' TERM
echo ready
until [ -e $HERE/told ]; do sleep 0.02; done
for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done
)";

TEST(JobKill, AnMpirunIsToldOnceWhenTheJobIsAskedTwice) {
  const test::Scratch scratch;
  const std::string mpirun = scratch.path("mpirun");
  test::spill(mpirun, kSlowMpirun);
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  JobOfRoles job(role("mpi", "exec '" + convoy_program() + "' run --mpirun " + mpirun + " -n 1 '" +
                                 rank_program() + "' work"));
  ASSERT_TRUE(job->wait_for("ready", 1));
  kill(job->pid(), SIGTERM);
  wait_until([&] { return std::filesystem::exists(job.path("told")); });
  kill(job->pid(), SIGTERM);
  EXPECT_EQ(job->finish().exit_status, 128 + SIGTERM);
  expect_nothing_left(job);
  EXPECT_EQ(test::slurp(job.path("told")), "told\n");
}

// An mpirun that is killed before it has cleaned up.
TEST(JobKill, WhatAnMpirunLeavesIsRemoved) {
  const test::Scratch scratch;
  const std::string mpirun = scratch.path("mpirun");
  test::spill(mpirun, R"(#!/bin/sh
if [ "$1" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit 0; fi
trap '' TERM
mkdir -p "${OMPI_MCA_orte_tmpdir_base:-$TMPDIR}/ompi.host.0/pid.1"
echo ready
while :; do sleep 0.05; done
)");
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  JobOfRoles job(role("mpi", "exec '" + convoy_program() + "' run --mpirun " + mpirun + " -n 1 '" +
                                 rank_program() + "' work"));
  ASSERT_TRUE(job->wait_for("ready", 1));
  ASSERT_TRUE(strike(job->pid()));
  expect_nothing_left(job);
}

// A process in the way of everything: its supervisor dies, and it can't be killed. Nor can another
// supervisor, which is told twice, and whose program goes on printing.
TEST(JobKill, WhatCannotBeKilledIsNamed) {
  JobOfRoles job(
      "[job]\ngrace_s = 1000\n" + role("a", kBrood) +
          role("b", "trap '' TERM PIPE; echo ready; while :; do echo x; sleep 0.05; done"),
      {"CONVOY_TEST_NO_SIGKILL=1"});
  ASSERT_TRUE(job->wait_for("ready", 3));
  const pid_t a = find(*job, {"--role-folder", "setsid"});
  const pid_t b = find(*job, {"--role-folder", "trap '' TERM PIPE"});
  pid_t child = 0;
  for (const JobProcess& process : job->processes("sh"))
    if (getpgid(process.pid) == process.pid && getsid(process.pid) == process.pid)
      child = process.pid;
  ASSERT_TRUE(a > 0 && b > 0 && child > 0);
  ASSERT_TRUE(strike(a));
  for (const int signal : {SIGTERM, SIGINT}) kill(job->pid(), signal);
  const JobResult result = job->finish();
  std::printf("ended after %.1f s\n", result.seconds);
  EXPECT_GT(result.exit_status, 128) << result.err;
  for (const std::string& process : {"process " + std::to_string(child) + " (sh)",
                                     "process " + std::to_string(b) + " (convoy-agent)"}) {
    EXPECT_EQ(count(result.err, process + " can't be killed; the job goes on without"), 1)
        << result.err;
    EXPECT_EQ(count(result.err, process + " is left: it can't be killed\n"), 1) << result.err;
  }
}

// One that hangs does its work when it can.
TEST(JobKill, AKeeperThatCannotBeKilledIsNamed) {
  JobOfRoles job(role("a", "echo ready; until [ -e $HERE/go ]; do sleep 0.02; done"),
                 {"CONVOY_TEST_NO_SIGKILL=1"});
  ASSERT_TRUE(job->wait_for("ready", 1));
  const pid_t keeper = find(*job, {"--make-folder"});
  ASSERT_TRUE(keeper > 0 && kill(keeper, SIGSTOP) == 0);
  test::spill(job.path("go"), "");
  const JobResult result = job->finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(count(result.err, "the folder " + job.temporary() + "/convoy-job-"), 1) << result.err;
  EXPECT_EQ(last_line(result.err), "convoy job: process " + std::to_string(keeper) +
                                       " (convoy-agent) is left: it can't be killed");
  EXPECT_EQ(test::entries(job.temporary()), 1u);
  kill(keeper, SIGCONT);
  expect_nothing_left(job);
}

TEST(JobKill, TheKeeper) {
  JobOfRoles job(role("a", kBrood) + service("b"));
  ASSERT_TRUE(job->wait_for("ready", 3));
  pid_t keeper = find(*job, {"--make-folder"});
  for (int times = 0; times < 2; ++times) {
    ASSERT_TRUE(strike(keeper));
    pid_t next = 0;
    wait_until([&] {
      next = find(*job, {"--keep-folder"});
      return next != 0 && next != keeper;
    });
    ASSERT_NE(next, keeper);
    keeper = next;
  }
  ASSERT_TRUE(strike(job->pid()));
  expect_nothing_left(job);
}

}  // namespace
}  // namespace convoy::cli
