// How a job with strategy "downpour" goes.
#include <csignal>
#include <filesystem>
#include <set>

#include "tests/cli/downpour_job_fixture.h"

namespace convoy::cli {
namespace {

TEST_F(DownpourJob, StartsWhatDiesAgainAtTheSameAddress) {
  plan("coordinator-0", "kill -9 $$\nexit 1\n");
  plan("server-1", "exit 1\nkill -9 $$\nexit 3\n");
  plan("replica-0", "exit 1\n");
  auto job = start();
  wait_until([&] {
    return starts("coordinator-0") == 3 && starts("server-1") == 4 && starts("replica-0") == 2 &&
           starts("evaluator-0") == 1;
  });
  for (const JobProcess& process : job->processes("bash")) {
    if (process.arguments.size() > 2 && process.arguments[2] == "evaluator")
      kill(process.pid, SIGKILL);
  }
  wait_until([&] { return starts("evaluator-0") == 2; });
  kill(job->pid(), SIGINT);
  const JobResult result = end_of(*job);
  EXPECT_EQ(result.exit_status, 75) << result.err;
  EXPECT_TRUE(has(result.err,
                  "coordinator was killed by signal 9 (Killed); starting it again in "
                  "0.25 s (restart 1)\n"))
      << result.err;
  EXPECT_TRUE(has(result.err,
                  "replica-0 exited with status 1; starting it again in 1 s (restart 1 "
                  "of 3)\n"))
      << result.err;
  std::set<std::string> addresses;
  for (const std::string& line : noted("started")) {
    const std::size_t at =
        line.find("127.0.0.1:2") == line.npos ? line.find("127.0.0.1:3") : line.find("127.0.0.1:2");
    addresses.insert(line.substr(at, 15));
  }
  EXPECT_EQ(addresses.size(), 1u);
}

TEST_F(DownpourJob, StopsInOrderAndKeepsTheServersData) {
  auto job = start();
  wait_until([&] { return starts("replica-1") == 1 && starts("evaluator-0") == 1; });
  ASSERT_TRUE(job->wait_for("is here", 6));
  kill(job->pid(), SIGUSR1);
  const JobResult result = end_of(*job);
  EXPECT_EQ(result.exit_status, 75) << result.err;
  EXPECT_EQ(noted("stopped").front(), "evaluator-0");
  EXPECT_EQ(noted("stopped").back(), "coordinator-0");
  EXPECT_FALSE(has(result.out, "USR1"));
  EXPECT_TRUE(fs::exists(data("server-2/log")));
  // Which the next one goes on with.
  plan("evaluator-0", "\nexit 0\n");
  test::spill(data("server-2/mark"), "");
  const JobResult refused = run();
  EXPECT_EQ(refused.exit_status, 2);
  EXPECT_TRUE(has(refused.err, "--resume goes on with it, --overwrite removes it")) << refused.err;
  EXPECT_TRUE(fs::exists(data("server-2/mark")));
  auto next = start({"--resume", "latest", "--checkpoint", "step-7"});
  const JobResult end = end_of(*next);
  EXPECT_EQ(end.exit_status, 0) << end.err;
  EXPECT_TRUE(has(end.err, "going on with the servers' own data\n")) << end.err;
  for (const std::string& line : noted("started")) EXPECT_FALSE(has(line, "step-7")) << line;
}

TEST_F(DownpourJob, OfAnotherRecipeGoesOnFromTheCheckpoint) {
  fs::create_directories(data("coordinator"));
  for (const char* file :
       {"coordinator/log", "server-1/log", "server-2/log", "server-1/mark", "recipe.toml"}) {
    fs::create_directories(fs::path(data(file)).parent_path());
    test::spill(data(file), "another");
  }
  test::spill(data("job.json"),
              R"({"version": 1, "address": "a:1", "checkpoint": "", "servers": 2,
                  "coordinator_data": true})");
  plan("evaluator-0", "until [ -e $HERE/starts-server-0 ]; do sleep 0.01; done; exit 0\n");
  const JobResult result = run({"--resume", "latest", "--checkpoint", "step-7"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "from step-7, since the recipe has another seed")) << result.err;
  EXPECT_FALSE(fs::exists(data("server-1/mark")));
  int told = 0;
  for (const std::string& line : noted("started"))
    told += line.ends_with("--resume step-7") ? 1 : 0;
  EXPECT_EQ(told, 2);  // coordinator and evaluator
}

// One command for the first start and every later one.
TEST_F(DownpourJob, WithAutoGoesOnOrBegins) {
  const auto next = [this](const std::string& end) {
    begins_until(end);
    return run({"--resume", "auto", "--run", path("run")});
  };
  JobResult result = next("exit 75");
  EXPECT_EQ(result.exit_status, 75) << result.err;
  EXPECT_FALSE(has(result.err, "going on")) << result.err;
  result = next("exit 0");
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "going on with the servers' own data\n")) << result.err;
  // A run of which nothing is left to go on with is in nobody's way.
  test::spill(path("run/metrics.jsonl"), "");
  fs::create_directories(path("run/checkpoints/step-7"));
  result = next("exit 0");
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.err, "beginning again: the run in the folder has no checkpoint\n"))
      << result.err;
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-7")));
}

TEST_F(DownpourJob, ShowsWhatItWouldStart) {
  const JobResult result = run({"--dry-run"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "# job test: 6 roles")) << result.out;
  EXPECT_TRUE(has(result.out, path("convoy") + " serve 127.0.0.1:")) << result.out;
  // The coordinator reads the user's recipe: that of the job's data is not there.
  EXPECT_TRUE(has(result.out, " coordinator 'my recipe.toml' --set a=1 --listen ")) << result.out;
  EXPECT_FALSE(has(result.out, data("recipe.toml"))) << result.out;
  EXPECT_FALSE(has(result.out, "CONVOY_COLUMNS")) << result.out;
  EXPECT_FALSE(fs::exists(path("run")));
  EXPECT_EQ(noted("started").size(), 0u);
}

// What is in the way is moved first; what a job goes on with stays where it is.
TEST_F(DownpourJob, ShowsWhatItWouldStartBesideAnEarlierJob) {
  begins_until("exit 75");
  ASSERT_EQ(run({"--checkpoint", path("step-3")}).exit_status, 75);
  const std::string first = "mv -T " + path("run/server") + " " + path("run/server.before-");
  JobResult result = run({"--dry-run", "--overwrite"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.out, first)) << result.out;
  result = run({"--dry-run", "--resume", "latest"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_FALSE(has(result.out, "mv ")) << result.out;
}

}  // namespace
}  // namespace convoy::cli
