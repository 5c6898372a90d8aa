// Roles of `convoy job` that are MPI jobs, and roles that mpirun starts on another host.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "convoy/base/system.h"
#include "tests/cli/job_script.h"

namespace convoy::cli {
namespace {

// A stand-in for ssh that stays on this machine.
Lines no_ssh(const test::Scratch& scratch) {
  test::spill(scratch.path("rsh"), "#!/bin/sh\nshift\nexec sh -c \"$*\"\n");
  chmod(scratch.path("rsh").c_str(), 0755);
  return {"OMPI_MCA_plm_rsh_agent=" + scratch.path("rsh"),
          "HYDRA_LAUNCHER_EXEC=" + scratch.path("rsh"), "HYDRA_LAUNCHER=ssh"};
}

TEST(Roles, MayBeMpiJobs) {
  JobResult result = run(ranks("a", "place") + ranks("b", "place"));
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(count(result.out, "[a] rank "), 2) << result.out;
  EXPECT_EQ(count(result.out, "[b] rank "), 2) << result.out;
  result = run(ranks("a", "exit 3 1"));
  EXPECT_EQ(result.exit_status, 1);
  const std::string who = "convoy run: rank 1 on host " + host_name() + " exited with status 3";
  EXPECT_EQ(count(result.err, "[a] " + who), 1) << result.err;
  EXPECT_EQ(last_line(result.err).rfind("convoy job:   " + who, 0), 0u) << result.err;
}

TEST(Roles, TellTheRanksToStop) {
  JobOfRoles job(ranks("a", "obey 75"));
  ASSERT_TRUE(job->wait_for("ready", 2));
  kill(job->pid(), SIGTERM);
  const JobResult result = end_of(job);
  EXPECT_EQ(count(result.out, "got 15"), 2) << result.out;
  EXPECT_EQ(result.exit_status, 75) << result.err;
}

TEST(Roles, AreNoRanksThemselves) {
  // The job is a rank; what it starts isn't, and starts ranks of its own.
  const test::Scratch scratch;
  test::spill(scratch.path("mine.toml"),
              ranks("mpi", "place") +
                  role("env", "env | grep -E '^(OMPI|PMI|PMIX|HYDRA)' | grep -v ROOT; echo end",
                       "env = { OMPI_MCA_own = '1' }"));
  Job job({"run", "-n", "1", convoy_program(), "job", scratch.path("mine.toml")});
  const JobResult result = job.finish();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(count(result.out, "[mpi] rank "), 2) << result.out;
  EXPECT_EQ(count(result.out, "[env] "), 2) << result.out;
  EXPECT_EQ(count(result.out, "[env] OMPI_MCA_own=1\n"), 1) << result.out;
  // What a user has said to Open MPI stays.
  EXPECT_EQ(run(role("env", "echo $OMPI_MCA_own"), {"OMPI_MCA_own=2"}).out, "[env] 2\n");
}

TEST(Roles, RunElsewhere) {
  const test::Scratch ssh;
  const std::string job = "[job]\nfolder = '" + ssh.path() + "'\n";
  const std::string there = "hosts = ['elsewhere']\nenv = { OWN = 'x y', OMPI_MCA_own = '3' }\n";
  JobResult result =
      run(job + role("a",
                     "echo $CONVOY_ROLE $OWN $OMPI_MCA_own; env | grep -c OMPI_COMM; touch "
                     "$CONVOY_JOB_FOLDER/x; [ $CONVOY_ROLE_RESTARTS = 1 ] || exit 7",
                     there + "restart = 'on_failure'\ndelay_s = 0"),
          no_ssh(ssh));
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.out, "[a] a x y 3\n[a] 0\n[a] a x y 3\n[a] 0\n");
  EXPECT_EQ(result.err,
            "convoy job: a exited with status 7; starting it again in 0 s (restart 1 of 3)\n");

  JobOfRoles stopped(job + "grace_s = 1000\n" + service("a", there), no_ssh(ssh));
  ASSERT_TRUE(stopped->wait_for("ready", 1));
  kill(stopped->pid(), SIGTERM);
  result = end_of(stopped);
  EXPECT_EQ(result.out, "[a] ready\n[a] stopped\n");
  EXPECT_EQ(result.exit_status, 128 + SIGTERM) << result.err;

  // At once, but mpirun takes its files along.
  JobOfRoles killed(
      job + "grace_s = 1000\n" +
          role("a", "trap 'echo told' TERM; echo ready; while :; do sleep 0.02; done", there),
      no_ssh(ssh));
  ASSERT_TRUE(killed->wait_for("ready", 1));
  kill(killed->pid(), SIGINT);
  ASSERT_TRUE(killed->wait_for("told", 1));
  kill(killed->pid(), SIGINT);
  EXPECT_EQ(end_of(killed).exit_status, 128 + SIGINT);

  result = run(job + role("a", "kill -SEGV $$", there), no_ssh(ssh));
  EXPECT_EQ(result.err,
            "convoy job: a on host elsewhere was killed by signal 11 (Segmentation fault)\n");
  EXPECT_EQ(test::entries(ssh.path()), 1u);  // the stand-in
}

}  // namespace
}  // namespace convoy::cli
