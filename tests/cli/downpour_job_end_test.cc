// How a job with strategy "downpour" ends: done, stopped, failed.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/cli/downpour_job_fixture.h"

namespace convoy::cli {
namespace {

TEST_F(DownpourJob, IsDoneWithTheEvaluator) {
  begins_until("echo result; exit 0");
  const JobResult result = run();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "\nresult\n") || result.out.starts_with("result\n")) << result.out;
  EXPECT_TRUE(has(result.out, "[server-1] serve is here\n")) << result.out;
  for (const char* role : {"coordinator", "server-0", "server-1", "replica-0", "replica-1"})
    EXPECT_TRUE(has(result.err, "convoy train: " + std::string(role) + " started\n")) << result.err;
  EXPECT_TRUE(has(result.err, "to watch: convoy status 127.0.0.1:")) << result.err;
  const Lines stopped = noted("stopped");
  ASSERT_EQ(stopped.size(), 5u);
  EXPECT_EQ(stopped.back(), "coordinator-0");
  EXPECT_TRUE(stopped.front().starts_with("replica-"));
  // Nobody needs it any more.
  EXPECT_FALSE(fs::exists(data("job.json")));
  EXPECT_FALSE(fs::exists(data("server-1")));
}

// What dies when all is trained, and the last checkpoint is written, takes nothing with it.
TEST_F(DownpourJob, IsDoneThoughAServerDiesInTheEnd) {
  plan("server-1", "trap 'kill -9 $$' TERM\n");
  begins_until("exit 0");
  const JobResult result = run();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "server-1 was killed by signal 9 (Killed) when it was told to stop"))
      << result.err;
  EXPECT_FALSE(fs::exists(data("job.json")));
  EXPECT_FALSE(fs::exists(data("server-2")));
}

// Nor what dies while those are told that come before it.
TEST_F(DownpourJob, IsDoneThoughAServerDiesBeforeItIsTold) {
  // The replica ends a second after the server, in which the job hears of the server's end.
  plan("replica-0",
       "trap 'echo > $HERE/late; for ((i = 0; i < 3000; ++i)); do kill -0 $(cat $HERE/pid) || "
       "break; sleep 0.01; done 2>/dev/null; sleep 1; exit 0' TERM\n");
  plan(
      "server-1",
      "echo $$ > $HERE/pid; echo x > $HERE/waits-server-1; until [ -e $HERE/late ]; do sleep 0.01; "
      "done; kill -9 $$\n");
  begins_until("exit 0");
  const JobResult result = run();
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(
      has(result.err, "server-1 was killed by signal 9 (Killed), behind the end of the job"))
      << result.err;
  EXPECT_EQ(starts("server-1"), 1u);
  EXPECT_FALSE(fs::exists(data("job.json")));
}

// A signal that comes when all is trained hastens the end, and does not undo it.
TEST_F(DownpourJob, IsDoneThoughItIsStoppedInTheEnd) {
  for (const int times : {1, 2}) {
    plan("replica-0",
         "trap 'echo > $HERE/late; until [ -e $HERE/go ]; do sleep 0.01; done; exit 0' TERM\n");
    begins_until("exit 0");
    fs::remove(path("go"));
    auto job = start_and_stop();
    if (times == 1) test::spill(path("go"), "");
    while (times == 2 && lives(*job, "replica-0")) {  // two that come at once are one
      kill(job->pid(), SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    const JobResult result = end_of(*job);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    EXPECT_FALSE(fs::exists(data("job.json")));
  }
}

// So is one whose evaluator was at its last checkpoint when it was told to stop.
TEST_F(DownpourJob, IsDoneThoughTheEvaluatorIsStoppedAtTheEnd) {
  begins_until("trap 'exit 0' TERM; touch $HERE/late; while :; do sleep 0.05; done");
  const JobResult result = end_of(*start_and_stop());
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_FALSE(fs::exists(data("job.json")));
  // But not one that was to be started again.
  JobResult stopped;
  bool in_between = false;
  const std::string heard = "evaluator was killed by signal 9 (Killed); starting it again";
  const auto until = Clock::now() + test::patience();
  for (int tries = 0; !in_between && Clock::now() < until; ++tries) {
    begins_until("kill -9 $$");
    auto job = start(tries == 0 ? Lines{} : Lines{"--overwrite"});
    EXPECT_TRUE(job->wait_for(heard, 1, Job::Stream::err));
    kill(job->pid(), SIGTERM);
    stopped = end_of(*job);
    // On a busy machine the next start, a second later, may have come before.
    in_between = starts("evaluator-0") == 1;
  }
  EXPECT_TRUE(in_between) << stopped.err;
  EXPECT_EQ(stopped.exit_status, 128 + SIGTERM) << stopped.err;
  EXPECT_TRUE(fs::exists(data("job.json")));
}

// What the evaluator saved makes up for a server that does not stop in order.
TEST_F(DownpourJob, IsStoppedThoughAServerDiesOfIt) {
  plan("server-1", "trap 'kill -9 $$' TERM\n");
  begins_until("touch $HERE/late; while :; do sleep 0.05; done");
  const JobResult result = end_of(*start_and_stop());
  EXPECT_EQ(result.exit_status, 75) << result.err;
  EXPECT_TRUE(fs::exists(data("job.json")));
}

TEST_F(DownpourJob, IsDoneThoughItsDataCannotBeRemoved) {
  begins_until("mkdir -p " + too_deep() + "; exit 0");
  const JobResult result = with_few_files([this] { return start(); });
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "the servers' data, which nobody needs any more, can't be removed: "))
      << result.err;
}

TEST_F(DownpourJob, AMistakeEndsIt) {
  plan("replica-1", "echo 'convoy replica: the network is another one' >&2; exit 2\n");
  const JobResult result = run();
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_TRUE(has(result.err, "convoy train: replica-1 exited with status 2")) << result.err;
  EXPECT_TRUE(has(result.err, "  convoy replica: the network is another one\n")) << result.err;
  EXPECT_EQ(starts("replica-1"), 1u);
}

TEST_F(DownpourJob, GoesOnWithTheReplicasThatAreLeft) {
  plan("replica-0", "exit 1\necho > $HERE/last; exit 1\n");
  // It ends for good some seconds after the other one.
  plan("replica-1",
       "until [ -e $HERE/last ]; do sleep 0.01; done; sleep 1; exit 1\nsleep 1; exit 1\n");
  const JobResult result = run({"--restarts", "1"});
  EXPECT_EQ(result.exit_status, 1);
  EXPECT_TRUE(has(result.err, "replica-0 exited with status 1; the job goes on without it"))
      << result.err;
  EXPECT_TRUE(has(result.err, "replica-1 exited with status 1 after 1 restart")) << result.err;
  EXPECT_TRUE(has(result.err, "--resume goes on with it")) << result.err;
}

// In rounds one may be done while another still has a share, which nobody takes when it dies.
TEST_F(DownpourJob, FailsWhenNoReplicaIsLeftThoughOneWasDone) {
  const std::string later = "sleep 0.5; exit ";
  for (const bool failed_first : {false, true}) {
    for (const char* role : {"0", "1"}) fs::remove(path(std::string("starts-replica-") + role));
    plan("replica-0", (failed_first ? later : "exit ") + "0\n");
    plan("replica-1", (failed_first ? "exit " : later) + "1\n");
    Lines how{"--restarts", "0", "--last-patience", "0.2"};
    if (failed_first) how.push_back("--overwrite");
    const JobResult result = run(how);
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_TRUE(has(result.err, "replica-1 exited with status 1")) << result.err;
    EXPECT_TRUE(has(result.err, "--resume goes on with it")) << result.err;
  }
}

TEST_F(DownpourJob, IsDoneWhenTheEvaluatorIsThoughTheLastReplicaFailed) {
  plan("replica-0", "exit 0\n");
  plan("replica-1", "exit 1\n");
  plan("evaluator-0",
       "until [ -e $HERE/starts-replica-0 -a -e $HERE/starts-replica-1 ]; do sleep 0.01; done; "
       "sleep 1; exit 0\n");
  const JobResult result = run({"--restarts", "0"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
}

}  // namespace
}  // namespace convoy::cli
