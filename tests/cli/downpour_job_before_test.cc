// What becomes of what an earlier job has left, when another one with strategy "downpour" begins.
#include <filesystem>

#include "tests/cli/downpour_job_fixture.h"

namespace convoy::cli {
namespace {

// What an --overwrite that was killed kept aside goes with the job that goes on with it: it is not
// what the next one puts back.
TEST_F(DownpourJob, ThatGoesOnRemovesWhatTheRunHadBefore) {
  const Lines of_the_run{"--run", path("run")};
  const auto with = [&](Lines more) {
    more.insert(more.end(), of_the_run.begin(), of_the_run.end());
    return run(more);
  };
  begins_until("exit 75");
  EXPECT_EQ(with({}).exit_status, 75);
  fs::create_directories(path("run/checkpoints/step-7"));
  test::spill(path("run/checkpoints/step-7/mark"), "the first");
  begins_until("exit 1");
  EXPECT_EQ(with({"--overwrite", "--restarts", "0"}).exit_status, 1);
  EXPECT_TRUE(fs::exists(path("run/before/checkpoints/step-7/mark")));
  begins_until("mkdir -p $HERE/run/checkpoints/step-7; exit 0");
  EXPECT_EQ(with({"--resume", "latest"}).exit_status, 0);
  EXPECT_FALSE(fs::exists(path("run/before")));
  plan("coordinator-0", "exit 2\n");
  begins_until("exit 0");
  EXPECT_EQ(with({"--overwrite"}).exit_status, 2);
  EXPECT_TRUE(fs::exists(path("run/checkpoints/step-7")));
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-7/mark"))) << "the first one's";
}

// Neither the servers' data nor, with --overwrite, the checkpoints.
TEST_F(DownpourJob, ThatCantBeginTakesNothingAway) {
  for (const Lines& how : {Lines{"--resume", "latest", "--checkpoint", "step-7"},
                           Lines{"--overwrite", "--run", path("run")}}) {
    fs::create_directories(path("run/checkpoints/step-7"));
    test::spill(path("run/checkpoints/step-7/mark"), "");
    for (const char* file :
         {"coordinator/log", "server-1/log", "server-2/log", "server-1/mark", "recipe.toml"}) {
      fs::create_directories(fs::path(data(file)).parent_path());
      test::spill(data(file), "another");
    }
    const std::string record = R"({"version": 1, "address": "a:1", "checkpoint": "", "servers": 2,
                                   "coordinator_data": true})";
    test::spill(data("job.json"), record);
    plan("coordinator-0", "exit 2\n");
    fs::remove(path("starts-coordinator-0"));
    const JobResult result = run(how);
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_EQ(test::slurp(data("job.json")), record) << result.err;
    EXPECT_EQ(test::slurp(data("recipe.toml")), "another");
    EXPECT_EQ(test::slurp(data("server-1/log")), "another");
    EXPECT_TRUE(fs::exists(data("server-1/mark")));
    EXPECT_TRUE(fs::exists(path("run/checkpoints/step-7/mark")));
    EXPECT_FALSE(fs::exists(data("before")) || fs::exists(path("run/before")));
  }
  plan("coordinator-0", "");
  fs::remove(path("starts-evaluator-0"));
  fs::remove(path("starts-server-0"));
  plan("evaluator-0", "until [ -e $HERE/starts-server-0 ]; do sleep 0.01; done; exit 0\n");
  EXPECT_EQ(run({"--overwrite", "--run", path("run")}).exit_status, 0);
  EXPECT_FALSE(fs::exists(path("run/checkpoints/step-7")));
  EXPECT_FALSE(fs::exists(data("before")) || fs::exists(path("run/before")));
}

// A later job of the same name doesn't go on with what this one has there.
TEST_F(DownpourJob, HasKeysOfItsOwnInEtcd) {
  const auto prefix = [this] {
    plan("evaluator-0",
         "until [ -e $HERE/starts-server-0 ]; do sleep 0.01; done; exit 75\nexit 75\n");
    for (const char* role : {"evaluator-0", "server-0"})
      fs::remove(path(std::string("starts-") + role));
    test::spill(path("started"), "");
    return [this](Lines more) {
      more.insert(more.end(), {"--etcd", "http://127.0.0.1:1"});
      EXPECT_EQ(run(more).exit_status, 75);
      for (const std::string& line : noted("started")) {
        const std::size_t at = line.find("--etcd-prefix ");
        if (at != line.npos) return line.substr(at);
      }
      return std::string();
    };
  };
  const std::string first = prefix()({});
  EXPECT_TRUE(has(first, "--etcd-prefix convoy/test-")) << first;
  EXPECT_EQ(prefix()({"--resume", "latest"}), first);
  EXPECT_NE(prefix()({"--overwrite"}), first);
}

TEST_F(DownpourJob, RemovesItsKeysFromEtcdWhenNobodyNeedsThem) {
  const auto prefix = [this] {
    const std::string record = test::slurp(data("job.json"));
    const std::size_t at = record.find("convoy/test-");
    return record.substr(at, record.find('"', at) - at);
  };
  const auto run_until = [this](const std::string& end, Lines more) {
    plan("evaluator-0", "until [ -e $HERE/starts-server-0 ]; do sleep 0.01; done; " + end + "\n");
    for (const char* role : {"evaluator-0", "server-0"})
      fs::remove(path(std::string("starts-") + role));
    more.insert(more.end(), {"--etcd", "http://127.0.0.1:1"});
    return run(more);
  };
  const auto line = [](const std::string& keys) {
    return "convoy train: keys that begin with " + keys +
           " can't be removed from etcd, and stay there: etcd at http://127.0.0.1:1: ";
  };
  JobResult result = run_until("exit 75", {});
  EXPECT_EQ(result.exit_status, 75);
  EXPECT_FALSE(has(result.err, "can't be removed")) << result.err;
  const std::string first = prefix();
  // Of one that is followed by another, when that has begun.
  result = run_until("exit 75", {"--overwrite"});
  EXPECT_EQ(result.exit_status, 75);
  EXPECT_TRUE(has(result.err, line(first))) << result.err;
  const std::string second = prefix();
  // Of one that never began, which leaves the other's.
  plan("coordinator-0", "exit 2\n");
  fs::remove(path("starts-coordinator-0"));
  result = run_until("sleep 60", {"--overwrite"});
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_EQ(prefix(), second);
  EXPECT_TRUE(has(result.err, "can't be removed")) << result.err;
  EXPECT_FALSE(has(result.err, line(second))) << result.err;
  plan("coordinator-0", "");
  // And of one that has come to its end.
  result = run_until("exit 0", {"--resume", "latest"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(has(result.err, line(second))) << result.err;
}

// What is still kept aside is older than it, though it has no checkpoint yet.
TEST_F(DownpourJob, ThatGoesOnIsNotTakenAwayByAMistake) {
  const auto run_until = [this](const std::string& end, Lines more) {
    begins_until(end);
    more.insert(more.end(), {"--restarts", "0", "--etcd", "http://127.0.0.1:1"});
    return run(more);
  };
  EXPECT_EQ(run_until("exit 75", {}).exit_status, 75);
  test::spill(data("server-1/mark"), "the first");
  JobResult result = run_until("exit 1", {"--overwrite"});
  EXPECT_EQ(result.exit_status, 1) << result.err;
  EXPECT_TRUE(fs::exists(data("before/server-1/mark"))) << result.err;
  test::spill(data("server-2/mark"), "the second");
  result = run_until("exit 2", {"--resume", "latest"});
  EXPECT_EQ(result.exit_status, 2) << result.err;
  EXPECT_FALSE(has(result.err, "is as it was")) << result.err;
  EXPECT_TRUE(has(result.err, "--resume goes on with it")) << result.err;
  EXPECT_FALSE(has(result.err, "can't be removed from etcd")) << "nothing of it is to be";
  EXPECT_TRUE(fs::exists(data("server-2/mark"))) << result.err;
  EXPECT_TRUE(fs::exists(data("before/server-1/mark"))) << result.err;
  EXPECT_EQ(run_until("exit 75", {"--resume", "latest"}).exit_status, 75);
  EXPECT_TRUE(fs::exists(data("server-2/mark")));
  EXPECT_FALSE(fs::exists(data("before")));
}

// It has begun: that it can't tidy up what was there before changes nothing about it.
TEST_F(DownpourJob, GoesOnThoughWhatWasThereBeforeCannotBeRemoved) {
  begins_until("exit 75");
  EXPECT_EQ(run().exit_status, 75);
  JobResult result;
  for (int times = 0; times < 2; ++times) {  // the second time what is left of the first is there
    fs::create_directories(too_deep());
    test::spill(data("server-1/mark"), "");
    begins_until("exit 75");
    result = with_few_files([this] { return start({"--overwrite"}); });
    EXPECT_EQ(result.exit_status, 75) << result.err;
    EXPECT_TRUE(has(result.err, "what was there before this job can't be removed")) << result.err;
    EXPECT_TRUE(has(result.err, data("before"))) << result.err;
    EXPECT_TRUE(fs::exists(data("job.json"))) << result.err;
    EXPECT_TRUE(fs::exists(data("server-1/log")));
    EXPECT_FALSE(fs::exists(data("server-1/mark"))) << "the old one's";
    EXPECT_FALSE(fs::exists(data("before"))) << "nothing is to be put back";
  }
  // Nor is it what the next one puts back.
  test::spill(data("server-2/mark"), "");
  begins_until("sleep 60");
  plan("coordinator-0", "exit 2\n");
  result = run({"--overwrite"});
  EXPECT_EQ(result.exit_status, 2) << result.err;
  EXPECT_TRUE(fs::exists(data("server-2/mark"))) << result.err;
  EXPECT_FALSE(fs::exists(data("server-1/mark"))) << "the old one's";
}

}  // namespace
}  // namespace convoy::cli
