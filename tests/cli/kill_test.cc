// Deaths at random moments. The promise: nothing is left after 10 s, and the right one is named. On
// a machine that does other things as well it may take longer, so that the seconds are printed for
// people and only what is left for good fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "cli/launch/processes.h"
#include "convoy/base/system.h"
#include "tests/base/scratch.h"
#include "tests/cli/job_script.h"

namespace convoy::cli {
namespace {

void pause_randomly() {
  static std::mt19937 random(std::random_device{}());
  std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
}

class Kill : public testing::Test {
 protected:
  static bool is_gone(const Job& job) {
    const double seconds = job.wait_until_gone();
    std::printf("nothing is left after %.1f s\n", seconds);
    return seconds >= 0;
  }

  // The process of `rank` that runs `program`, once the job is at work.
  static pid_t find(Job& job, const std::string& program, int rank) {
    for (const JobProcess& process : job.processes(program)) {
      if (process.rank == rank) return process.pid;
    }
    return 0;
  }

  // Process number 0 would be this test's own group.
  static bool strike(pid_t pid, int signal = SIGKILL) { return pid > 0 && kill(pid, signal) == 0; }
};

std::string on_host(int rank) { return "rank " + std::to_string(rank) + " on host " + host_name(); }

TEST_F(Kill, Rank) {
  for (int n : {1, 2, 3, 5}) {
    Job job({"run", "-n", std::to_string(n), rank_program(), "work"});
    ASSERT_TRUE(job.wait_for("ready", n));
    pause_randomly();
    const int victim = n / 2;
    ASSERT_TRUE(strike(find(job, "cli_rank_program", victim)));
    ASSERT_TRUE(is_gone(job));
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
    EXPECT_EQ(last_line(result.err)
                  .find("convoy run: " + on_host(victim) + " was killed by signal 9 (Killed)"),
              0u)
        << result.err;
  }
}

TEST_F(Kill, RankInTheMiddleOfACollective) {
  const std::string program =
      rank_program().substr(0, rank_program().rfind('/')) + "/cli_collective_program";
  for (const char* algorithm :
       {"shared", "multicolor", "ring", "ring-rsag", "recursive-doubling", "naive"}) {
    Job job({"run", "-n", "3", program}, {std::string("CONVOY_ALLREDUCE=") + algorithm});
    ASSERT_TRUE(job.wait_for("ready", 3)) << algorithm;
    pause_randomly();
    ASSERT_TRUE(strike(find(job, "cli_collective_program", 1))) << algorithm;
    ASSERT_TRUE(is_gone(job)) << algorithm;
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, 1) << algorithm;
    EXPECT_NE(last_line(result.err).find(on_host(1) + " was killed by signal 9"), std::string::npos)
        << algorithm << ": " << result.err;
  }
}

TEST_F(Kill, RankWhileStarting) {
  Job job({"run", "-n", "2", rank_program(), "work"});
  wait_until([&] { return find(job, "cli_rank_program", 1) != 0; });
  ASSERT_TRUE(strike(find(job, "cli_rank_program", 1)));
  ASSERT_TRUE(is_gone(job));
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_NE(last_line(result.err).find(on_host(1) + " was killed by signal 9"), std::string::npos)
      << result.err;
}

TEST_F(Kill, RankAmongStubbornOnes) {
  Job job({"run", "-n", "3", rank_program(), "stubborn"});
  ASSERT_TRUE(job.wait_for("ready", 3));
  ASSERT_TRUE(strike(find(job, "cli_rank_program", 0)));
  ASSERT_TRUE(is_gone(job));
  EXPECT_NE(last_line(job.finish().err).find(on_host(0)), std::string::npos);
}

TEST_F(Kill, RankWithChildrenOfItsOwn) {
  Job job({"run", "-n", "2", rank_program(), "children"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  // Parents have the lower number, unless numbers have wrapped around: then this kills a child
  // first.
  ASSERT_TRUE(strike(find(job, "cli_rank_program", 1)));
  for (const JobProcess& process : job.processes("cli_rank_program")) {
    if (process.rank == 1) kill(process.pid, SIGKILL);
  }
  EXPECT_TRUE(is_gone(job));
}

TEST_F(Kill, Supervisor) {
  Job job({"run", "-n", "3", rank_program(), "children"});
  ASSERT_TRUE(job.wait_for("ready", 3));
  pause_randomly();
  ASSERT_TRUE(strike(find(job, "convoy-agent", 1)));
  ASSERT_TRUE(is_gone(job));
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_NE(last_line(result.err).find("rank 1 on host"), std::string::npos) << result.err;
}

TEST_F(Kill, Mpirun) {
  Job job({"run", "-n", "3", rank_program(), "stubborn"});
  ASSERT_TRUE(job.wait_for("ready", 3));
  pause_randomly();
  const auto mpiruns = job.processes("mpirun");
  ASSERT_EQ(mpiruns.size(), 1u);
  ASSERT_TRUE(strike(mpiruns[0].pid));
  ASSERT_TRUE(is_gone(job));
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(result.err,
            "convoy run: mpirun was killed by signal 9 (Killed); the 3 ranks were ended\n");
}

TEST_F(Kill, Launcher) {
  Job job({"run", "-n", "3", rank_program(), "stubborn"});
  ASSERT_TRUE(job.wait_for("ready", 3));
  pause_randomly();
  ASSERT_TRUE(strike(job.pid()));
  EXPECT_TRUE(is_gone(job));
}

TEST_F(Kill, LauncherWhileStarting) {
  Job job({"run", "-n", "4", rank_program(), "work"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  pause_randomly();
  ASSERT_TRUE(strike(job.pid()));
  EXPECT_TRUE(is_gone(job));
}

TEST_F(Kill, EndsOnRequest) {
  for (int signal : {SIGTERM, SIGINT}) {
    Job job({"run", "-n", "2", rank_program(), "work"});
    ASSERT_TRUE(job.wait_for("ready", 2));
    kill(job.pid(), signal);
    ASSERT_TRUE(is_gone(job));
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, 128 + signal);
    EXPECT_EQ(result.err,
              "convoy run: ended by " + describe_signal(signal) + "; the 2 ranks were ended\n");
  }
}

// What mpirun has made in the folder for temporary files goes, too.
TEST_F(Kill, EndsAtOnceWhenAskedTwice) {
  const test::Scratch scratch;
  Job job({"run", "-n", "2", "--grace", "1000", rank_program(), "stubborn"},
          {"TMPDIR=" + scratch.path()});
  ASSERT_TRUE(job.wait_for("ready", 2));
  kill(job.pid(), SIGINT);
  for (int i = 0; i < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(job.pid(), SIGTERM);
  }
  ASSERT_TRUE(is_gone(job));
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 128 + SIGINT) << result.err;
  EXPECT_EQ(result.err,
            "convoy run: ended by " + describe_signal(SIGINT) + "; the 2 ranks were ended\n");
  EXPECT_EQ(test::entries(scratch.path()), 0u);
}

// An mpirun that has been stopped, and that nothing of the job can kill.
TEST_F(Kill, WhatCannotBeKilledIsNamed) {
  Job job({convoy_program(), "run", "-n", "1", rank_program(), "work"},
          {"CONVOY_TEST_NO_SIGKILL=1"}, job_program());
  ASSERT_TRUE(job.wait_for("ready", 1));
  const auto mpiruns = job.processes("mpirun");
  ASSERT_EQ(mpiruns.size(), 1u);
  ASSERT_TRUE(strike(mpiruns[0].pid, SIGSTOP));
  for (const int signal : {SIGTERM, SIGINT}) kill(job.pid(), signal);
  const JobResult result = job.finish();
  std::printf("ended after %.1f s\n", result.seconds);
  EXPECT_GT(result.exit_status, 128);
  EXPECT_NE(result.err.find("; process " + std::to_string(mpiruns[0].pid) + " (" + mpiruns[0].name +
                            ") is left: it can't be killed"),
            std::string::npos)
      << result.err;
}

// Ranks that leave such a process behind.
Job run_leaving(const std::vector<std::string>& words) {
  std::vector<std::string> arguments{convoy_program(), "run"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  return Job(arguments, {"CONVOY_TEST_NO_SIGKILL=1"}, job_program());
}

// The end of the last line.
void expect_left(Job& job, const std::string& before) {
  const JobResult result = job.finish();
  std::printf("ended after %.1f s\n", result.seconds);
  EXPECT_EQ(result.exit_status, 1) << result.err;
  const auto left = job.processes("cli_rank_program");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(last_line(result.err), "convoy run: " + before + describe_process(left[0].pid) +
                                       " is left: it can't be killed");
}

TEST_F(Kill, WhatAGoodRankLeavesAndCannotBeKilledIsNamed) {
  // mpirun waits for the end of the ranks' output.
  Job holding = run_leaving({"-n", "1", rank_program(), "leave", "0"});
  Job silent = run_leaving({"-n", "1", rank_program(), "leave", "0", "silent"});
  Job labeled = run_leaving({"-n", "1", "--label", rank_program(), "leave", "75"});
  for (Job* job : {&holding, &silent, &labeled}) {
    SCOPED_TRACE(job == &holding ? "holding" : job == &silent ? "silent" : "labeled");
    expect_left(*job, job == &labeled ? "the ranks ask to be started again (status 75); " : "");
  }
}

TEST_F(Kill, ARankThatFailsIsReportedThoughWhatItLeavesGoesOnPrinting) {
  // The other one is there when it fails.
  const test::Scratch scratch;
  const std::string there = scratch.path("there");
  Job job = run_leaving({"-n", "2", "--label", "sh", "-c",
                         "if [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ]; then touch " + there +
                             "; exec sleep 1000; fi; until [ -e " + there +
                             " ]; do sleep 0.01; done; exec '" + rank_program() + "' leave 3"});
  expect_left(job, on_host(0) + " exited with status 3; the other rank was ended; ");
}

TEST_F(Kill, GoesOnAfterAHangupThatIsIgnored) {
  const test::Scratch scratch;
  const std::string script =
      "echo ready; until [ -e " + scratch.path("go") + " ]; do sleep 0.02; done; echo done";
  Job job(ignoring_hangups(convoy_program(), {"run", "-n", "2", "sh", "-c", script}), {},
          "/bin/sh");
  ASSERT_TRUE(job.wait_for("ready", 2));
  for (const int signal : {SIGHUP, SIGINT}) kill(job.pid(), signal);
  test::spill(scratch.path("go"), "");
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(count(result.out, "done"), 2) << result.out;
}

TEST_F(Kill, LetsRanksAnswerARequest) {
  Job job({"run", "-n", "2", rank_program(), "obey", "75"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  kill(job.pid(), SIGTERM);
  const JobResult result = job.finish();
  EXPECT_EQ(count(result.out, "got 15"), 2) << result.out;
  EXPECT_EQ(result.exit_status, 75) << result.err;
}

// One that takes a while to answer, told to end.
JobResult ended_with_grace(const std::string& grace, const std::string& answer) {
  Job job({"run", "-n", "1", "--grace", grace, "sh", "-c",
           "trap '" + answer + "; exit 75' USR1; echo ready; while :; do sleep 0.05; done"});
  EXPECT_TRUE(job.wait_for("ready", 1));
  kill(job.pid(), SIGTERM);
  return job.finish();
}

// More seconds than a clock counts to are no less than few.
TEST_F(Kill, GraceMayBeAsLongAsYouLike) {
  for (const char* grace : {"1000", "1e18", "1e300", "inf"}) {
    const JobResult result = ended_with_grace(grace, "sleep 0.3; echo answered");
    EXPECT_EQ(result.exit_status, 75) << grace << result.err;
    EXPECT_EQ(count(result.out, "answered"), 1) << grace;
  }
  EXPECT_EQ(ended_with_grace("0.2", "sleep 1000").exit_status, 128 + SIGTERM);
}

TEST_F(Kill, PassesUserSignalsOn) {
  Job job({"run", "-n", "2", rank_program(), "obey", "0"});
  ASSERT_TRUE(job.wait_for("ready", 2));
  kill(job.pid(), SIGUSR1);
  const JobResult result = job.finish();
  EXPECT_EQ(count(result.out, "got 10"), 2) << result.out;
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace convoy::cli
