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

// 28 x 28 values between 0 and 2 for each of MNIST's test images, and their labels.
std::pair<torch::Tensor, torch::Tensor> test_images() {
  const auto unpacked = [](const std::string& name) {
    const std::string command =
        "gzip -dc '" + test::source_folder() + "/data/mnist/t10k-" + name + "-ubyte.gz'";
    std::FILE* from = popen(command.c_str(), "r");
    std::vector<std::uint8_t> bytes(1 << 24);
    bytes.resize(std::fread(bytes.data(), 1, bytes.size(), from));
    EXPECT_EQ(pclose(from), 0);
    return bytes;
  };
  auto pixels = unpacked("images-idx3"), labels = unpacked("labels-idx1");
  const auto count = static_cast<std::int64_t>(labels.size()) - 8;
  const float scale = static_cast<float>(1 / (255.0 * 0.5));
  torch::Tensor images = torch::from_blob(pixels.data() + 16, {count, 1, 28, 28}, torch::kUInt8)
                             .to(torch::kFloat)
                             .mul(scale);
  return {images, torch::from_blob(labels.data() + 8, {count}, torch::kUInt8).to(torch::kLong)};
}

// A loop over all images by LibTorch alone, at the weights that the first iteration comes to.
TEST(SandblasterJob, LeNetsLossAndGradientAreThoseOfAPlainLoop) {
  const test::Scratch scratch;
  const std::string folder = scratch.path("job");
  const JobResult result =
      Job(small_sandblaster(folder, {"model.name=lenet", "model.options={}", "training.steps=1",
                                     "training.batch=250", "sandblaster.l2=0", "data.mean=[0.0]",
                                     "data.deviation=[0.5]"}))
          .finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  const std::string checkpoint = train::CheckpointFolder(folder + "/checkpoints").newest();
  const train::State saved =
      train::read_checkpoint(checkpoint, train::open_checkpoint(checkpoint), 0, 1);
  const optim::BatchState state = optim::batch_state_of(saved.lists.at("batch"));
  EXPECT_EQ(state.iteration, 1);
  train::Tensors w;
  for (const auto& [name, tensor] : saved.model) w[name] = tensor.clone().requires_grad_(true);
  const auto [images, labels] = test_images();
  double loss = 0;
  for (std::int64_t at = 0; at < images.size(0); at += 500) {
    torch::Tensor x = images.slice(0, at, at + 500).to(torch::kDouble);
    for (const char* layer : {"conv1", "conv2"}) {
      const std::string name = layer;
      x = torch::max_pool2d(torch::conv2d(x, w.at(name + ".weight"), w.at(name + ".bias")), 2);
    }
    x = torch::relu(torch::linear(x.flatten(1), w.at("fc1.weight"), w.at("fc1.bias")));
    x = torch::linear(x, w.at("fc2.weight"), w.at("fc2.bias"));
    const torch::Tensor sum = torch::nn::functional::cross_entropy(
        x, labels.slice(0, at, at + 500),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
    sum.backward();
    loss += sum.item<double>();
  }
  const auto count = static_cast<double>(images.size(0));
  EXPECT_LT(std::abs(state.loss - loss / count), 1e-12 * state.loss);
  train::Tensors mine, expected;
  for (const auto& [name, tensor] : w) {
    expected[name] = tensor.grad() / count;
    mine[name] = saved.optimizer.at("gradient/" + name);
  }
  EXPECT_EQ(mine.size(), 8u);
  const double far = farthest(mine, expected);
  EXPECT_LT(far, 1e-12);
  std::printf("loss %.17g, of the loop %.17g; gradient: %.2g\n", state.loss, loss / count, far);
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
  for (const char* partitions : {"1", "2"}) {
    SCOPED_TRACE(partitions);
    const JobResult result = Job(small_sandblaster(scratch.path(std::string("job-") + partitions),
                                                   {"data.mean=[3e38]", "data.deviation=[1e-9]",
                                                    std::string("grid.partitions=") + partitions}))
                                 .finish();
    EXPECT_EQ(result.exit_status, 2) << result.err;
    EXPECT_NE(result.err.find("the first loss or gradient is not finite: of portion "),
              std::string::npos)
        << result.err;
    EXPECT_EQ(result.err.find("starting it again"), std::string::npos) << result.err;
  }
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
