// Jobs with strategy "sandblaster" from the command line, against the same method in one process.
#include <gtest/gtest.h>

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "tests/cli/sandblaster_job.h"

namespace convoy::cli {
namespace {

double farthest(const train::Tensors& mine, const train::Tensors& expected) {
  double most = 0;
  for (const auto& [name, tensor] : expected) {
    const double scale = tensor.abs().max().item<double>();
    most = std::max(most, (mine.at(name) - tensor).abs().max().item<double>() / scale);
  }
  return most;
}

TEST(SandblasterJob, ComesToTheBitsOfOneProcess) {
  const test::Scratch scratch;
  const JobResult result = Job(small_sandblaster(scratch.path("job"), {})).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(result.err.find("iteration 5: loss "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("; 20 portions"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("servers need up to"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("done after 5 steps"), std::string::npos) << result.out;
  EXPECT_FALSE(std::filesystem::exists(scratch.path("job/server/job.json")));
  expect_same_bits(weights_in(scratch.path("job")), in_one_process(scratch.path("one"), {}));
}

TEST(SandblasterJob, OnAnyNumbersOfReplicasShardsAndGroups) {
  const test::Scratch scratch;
  const train::Tensors expected = in_one_process(scratch.path("one"), {});
  const Words jobs[] = {{"replicas=1", "shards=1", "largest_group=1"},
                        {"replicas=2", "shards=5", "largest_group=4", "copies=false"},
                        {"replicas=4", "shards=2", "largest_group=16"},
                        {"replicas=4", "shards=5", "largest_group=1", "backups=false"},
                        {"replicas=2", "shards=1", "largest_group=16", "durability=none"}};
  int number = 0;
  for (const Words& job : jobs) {
    Words keys;
    std::string trace;
    for (const std::string& key : job) {
      keys.push_back("sandblaster." + key);
      trace += key + " ";
    }
    SCOPED_TRACE(trace);
    const std::string folder = scratch.path("job-" + std::to_string(++number));
    const JobResult result = Job(small_sandblaster(folder, keys)).finish();
    ASSERT_EQ(result.exit_status, 0) << result.err;
    expect_same_bits(weights_in(folder), expected);
  }
}

// The sum over a portion is rounded otherwise, and so is a partition's part of it.
TEST(SandblasterJob, OtherPortionsAndPartitionsComeNear) {
  const test::Scratch scratch;
  const Words longer{"training.steps=30"};
  const train::Tensors expected = in_one_process(scratch.path("one"), longer);
  const Words jobs[] = {{"sandblaster.portion=170"},
                        {"sandblaster.portion=1000"},
                        {"grid.partitions=2", "sandblaster.replicas=2"}};
  int number = 0;
  for (Words keys : jobs) {
    SCOPED_TRACE(keys.front());
    keys.insert(keys.end(), longer.begin(), longer.end());
    const std::string folder = scratch.path("job-" + std::to_string(++number));
    const JobResult result = Job(small_sandblaster(folder, keys)).finish();
    ASSERT_EQ(result.exit_status, 0) << result.err;
    const double far = farthest(weights_in(folder), expected);
    EXPECT_LT(far, 1e-8);
    std::printf("%s: %.2g\n", keys.front().c_str(), far);
  }
}

TEST(SandblasterJob, WhateverIsKilledItComesToTheSameBits) {
  const test::Scratch scratch;
  const Words keys{"training.steps=40", "sandblaster.replicas=3"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  const std::pair<const char*, const char*> victims[] = {{"replica", "replica-1"},
                                                         {"serve", "1"},
                                                         {"serve", "2"},
                                                         {"coordinator", ""},
                                                         {"evaluator", ""}};
  int number = 0;
  for (const auto& [role, name] : victims) {
    SCOPED_TRACE(std::string(role) + " " + name);
    const std::string folder = scratch.path("job-" + std::to_string(++number));
    Job job(small_sandblaster(folder, keys));
    ASSERT_TRUE(job.wait_for("iteration 5: loss", 1, Job::Stream::err));
    const pid_t victim = process_of(job, role, name);
    ASSERT_NE(victim, 0);
    kill(victim, SIGKILL);
    const JobResult result = job.finish();
    ASSERT_EQ(result.exit_status, 0) << result.err;
    EXPECT_NE(result.err.find("killed by signal 9"), std::string::npos) << result.err;
    expect_same_bits(weights_in(folder), expected);
  }
}

// One is started by hand while the job is under way.
TEST(SandblasterJob, MoreReplicasMayJoin) {
  const test::Scratch scratch;
  const Words keys{"training.steps=60", "sandblaster.replicas=1"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  Job job(small_sandblaster(scratch.path("job"), keys));
  ASSERT_TRUE(job.wait_for("iteration 2: loss", 1, Job::Stream::err));
  std::string address;
  for (const JobProcess& process : job.processes("convoy")) {
    const Words& words = process.arguments;
    const auto role = std::find(words.begin(), words.end(), "evaluator");
    if (role != words.end()) address = *(role + 1);
  }
  ASSERT_NE(address, "");
  Job late({"replica", address, "--name", "late"});
  ASSERT_TRUE(job.wait_for("'late') has joined", 1, Job::Stream::err));
  const JobResult result = job.finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const JobResult joined = late.finish();
  EXPECT_EQ(joined.exit_status, 0) << joined.err;
  EXPECT_NE(joined.out.find("the job is over (all 60 iterations are done) after "),
            std::string::npos)
      << joined.out;
  expect_same_bits(weights_in(scratch.path("job")), expected);
}

// One that stands still is given up, and what it has is handed out again. It comes back with a
// group of an evaluation that is long over.
TEST(SandblasterJob, AReplicaThatStandsStillIsWaitedForNoLonger) {
  const test::Scratch scratch;
  const Words keys{"training.steps=60", "sandblaster.lease_s=1"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  Job job(small_sandblaster(scratch.path("job"), keys));
  ASSERT_TRUE(job.wait_for("iteration 5: loss", 1, Job::Stream::err));
  const pid_t slow = process_of(job, "replica", "replica-1");
  ASSERT_NE(slow, 0);
  kill(slow, SIGSTOP);
  ASSERT_TRUE(job.wait_for("iteration 20: loss", 1, Job::Stream::err));
  kill(slow, SIGCONT);
  const JobResult result = job.finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.err.find("exited with"), std::string::npos) << result.err;
  expect_same_bits(weights_in(scratch.path("job")), expected);
}

TEST(SandblasterJob, StopsAndGoesOnToTheSameBits) {
  const test::Scratch scratch;
  const Words keys{"training.steps=40"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  Words words = small_sandblaster(scratch.path("job"), keys);
  words.push_back("--resume=auto");
  {
    Job job(words);
    ASSERT_TRUE(job.wait_for("iteration 5: loss", 1, Job::Stream::err));
    kill(job.pid(), SIGTERM);
    const JobResult result = job.finish();
    EXPECT_EQ(result.exit_status, 75) << result.err;
  }
  const JobResult result = Job(words).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(result.err.find("going on with the servers' own data"), std::string::npos)
      << result.err;
  expect_same_bits(weights_in(scratch.path("job")), expected);
}

// Nothing of the job that wrote it is there any more.
TEST(SandblasterJob, GoesOnFromACheckpointOnOtherShardsAndReplicas) {
  const test::Scratch scratch;
  const train::Tensors expected = in_one_process(scratch.path("one"), {"training.steps=9"});
  ASSERT_EQ(
      Job(small_sandblaster(scratch.path("first"), {"training.steps=5"})).finish().exit_status, 0);
  Words words =
      small_sandblaster(scratch.path("second"),
                        {"training.steps=9", "sandblaster.shards=3", "sandblaster.replicas=3"});
  words.insert(words.end(), {"--resume", scratch.path("first")});
  const JobResult result = Job(words).finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_NE(result.err.find("the optimization goes on behind iteration 5"), std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("iteration 5: loss"), std::string::npos) << result.err;
  expect_same_bits(weights_in(scratch.path("second")), expected);
  const JobResult score = Job(Words{"eval", scratch.path("second")}).finish();
  EXPECT_EQ(score.exit_status, 0) << score.err;
  // Replicas of Downpour go on from its weights.
  words = small_sandblaster(scratch.path("third"),
                            {"strategy=downpour", "precision=float32", "training.steps=19"});
  words.insert(words.end(), {"--resume", scratch.path("second")});
  const JobResult third = Job(words).finish();
  ASSERT_EQ(third.exit_status, 0) << third.err;
  EXPECT_NE(third.out.find("done after 19 steps"), std::string::npos) << third.out;
}

TEST(SandblasterJob, WhereTheFirstLossIsNoneNothingIsTriedAgain) {
  const test::Scratch scratch;
  const JobResult result =
      Job(small_sandblaster(scratch.path("job"), {"data.mean=[3e38]", "data.deviation=[1e-9]"}))
          .finish();
  EXPECT_EQ(result.exit_status, 2) << result.err;
  EXPECT_NE(result.err.find("the first loss or gradient is not finite: of portion "),
            std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("starting it again"), std::string::npos) << result.err;
}

TEST(SandblasterJob, MistakesAreSaidBeforeAnythingIsStarted) {
  const test::Scratch scratch;
  const JobResult result =
      Job(small_sandblaster(scratch.path("job"),
                            {"optimizer.lr=0.1", "sandblaster.history=0", "precision=bfloat16"}))
          .finish();
  EXPECT_EQ(result.exit_status, 2);
  for (const char* part :
       {"optimizer.lr: with sandblaster", "sandblaster.history is 0", "precision is bfloat16"})
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(scratch.path("job")));
}

}  // namespace
}  // namespace convoy::cli
