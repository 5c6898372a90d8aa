// Roles whose failure is the job's only sometimes, and how jobs of `convoy train` differ from those
// of `convoy job`.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/job_script.h"

namespace convoy::cli {
namespace {

const Lines kSupervised{"CONVOY_TEST_SUPERVISED=1"};

TEST(FatalStatus, EndsTheJobThoughTheRoleIsDispensableAndMayBeStartedAgain) {
  const std::string rules =
      "essential = false\nuntil_done = false\nrestart = \"on_failure\"\nrestarts = 5\n"
      "delay_s = 0.01\nfatal = [2]";
  const std::string twice =
      "echo a mistake >&2; if [ $CONVOY_ROLE_RESTARTS = 0 ]; then exit 3; else exit 2; fi";
  const JobResult result = run(role("a", "sleep 1000") + role("b", twice, rules));
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_NE(result.err.find("b exited with status 3; starting it again"), std::string::npos);
  EXPECT_NE(result.err.find("convoy job: b exited with status 2 after 1 restart; the other role "
                            "was ended"),
            std::string::npos)
      << result.err;
}

TEST(FatalStatus, AsksForAnotherStartIfItIs75) {
  const JobResult result =
      run(role("a", "exit 75", "restart = \"on_failure\"\nfatal = [75]") + service("b"));
  EXPECT_EQ(result.exit_status, 75) << result.err;
}

TEST(LastEssential, TheJobGoesOnAsLongAsOneLives) {
  JobOfRoles job(role("a", "touch $HERE/a; until [ -e $HERE/done ]; do sleep 0.01; done") +
                 role("b",
                      "touch $HERE/b-$CONVOY_ROLE_INDEX; "
                      "until [ -e $HERE/end-$CONVOY_ROLE_INDEX ]; do sleep 0.01; done; exit 1",
                      "count = 2\nuntil_done = false\nessential = \"last\""));
  for (const char* begun : {"a", "b-0", "b-1"})
    wait_until([&] { return std::filesystem::exists(job.path(begun)); });
  test::spill(job.path("end-1"), "");
  EXPECT_TRUE(
      job->wait_for("b-1 exited with status 1; the job goes on without it", 1, Job::Stream::err));
  test::spill(job.path("done"), "");
  const JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 0) << result.err;
}

TEST(LastEssential, TheJobFailsWithTheLastOne) {
  JobOfRoles job(role("a", "sleep 1000") +
                 role("b", "until [ -e $HERE/end-$CONVOY_ROLE_INDEX ]; do sleep 0.01; done; exit 1",
                      "count = 3\nuntil_done = false\nessential = \"last\""));
  for (const int index : {0, 1}) {
    test::spill(job.path("end-" + std::to_string(index)), "");
    ASSERT_TRUE(job->wait_for("the job goes on without it", index + 1, Job::Stream::err));
  }
  test::spill(job.path("end-2"), "");
  const JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_EQ(count(result.err, "the job goes on without it"), 2) << result.err;
}

TEST(LastEssential, TheLastOneMayFailWhereAnotherHasEndedWell) {
  JobOfRoles job(role("a", "echo ready; until [ -e $HERE/done ]; do sleep 0.01; done") +
                 role("b", "echo ready; [ $CONVOY_ROLE_INDEX = 0 ] || exec tail -f /dev/null",
                      "count = 2\nuntil_done = false\nessential = \"last\""));
  ASSERT_TRUE(job->wait_for("ready", 3));
  // The keeper of the folder, and a supervisor of each role that goes on: the job has been told of
  // the end of the others.
  const auto agents = [&job] { return job->processes("convoy-agent").size(); };
  wait_until([&] { return job->processes("tail").size() == 1 && agents() == 3; });
  for (const JobProcess& process : job->processes("tail")) kill(process.pid, SIGKILL);
  wait_until([&] { return agents() == 2; });
  test::spill(job.path("done"), "");
  EXPECT_EQ(end_of(job).exit_status, 0);
}

// What `convoy train` asks for.
TEST(SupervisedJob, SaysWhatItDoesAndStopsAtUsr1) {
  const std::string evaluator =
      "trap 'echo saved; exit 75' TERM; trap 'echo USR1' USR1; echo ready; while :; do sleep "
      "0.02; done";
  JobOfRoles job(role("evaluator", evaluator, "restart = \"on_failure\"") + service("server"),
                 kSupervised);
  ASSERT_TRUE(job->wait_for("ready", 2));
  kill(job->pid(), SIGUSR1);
  const JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 75) << result.err;
  const auto has = [](const std::string& text, const char* line) {
    return text.find(line) != std::string::npos;
  };
  EXPECT_TRUE(has(result.err, "convoy train: evaluator started\n")) << result.err;
  EXPECT_TRUE(has(result.err, "convoy train: server started\n")) << result.err;
  EXPECT_TRUE(has(result.out, "saved\n[server] stopped\n")) << result.out;
  EXPECT_FALSE(has(result.out, "USR1")) << result.out;
}

TEST(SupervisedJob, LinesTakeThePlaceOfABarUntilItIsDrawnAgain) {
  JobOfRoles job(
      role("evaluator",
           "printf '\\r10%%'; until [ -e $HERE/said ]; do sleep 0.01; done; "
           "printf '\\r20%%\\n'") +
          role("server", "until [ -e $HERE/drawn ]; do sleep 0.01; done; echo line; sleep 1000",
               "until_done = false"),
      kSupervised);
  ASSERT_TRUE(job->wait_for("10%", 1));
  test::spill(job.path("drawn"), "");
  ASSERT_TRUE(job->wait_for("line\n", 1));
  test::spill(job.path("said"), "");
  const JobResult result = end_of(job);
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.out, "\r10%\r\x1b[K[server] line\n\r20%\n") << result.out;
}

}  // namespace
}  // namespace convoy::cli
