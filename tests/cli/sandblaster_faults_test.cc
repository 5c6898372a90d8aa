// Jobs with strategy "sandblaster" that something happens to, and where their state is elsewhere.
#include <gtest/gtest.h>

#include <signal.h>

#include <filesystem>
#include <memory>
#include <tuple>

#include "tests/base/leave_out.h"
#include "tests/base/patience.h"
#include "tests/cli/sandblaster_job.h"
#include "tests/server/coordinator/other_answers.h"
#include "tests/server/coordinator/processes.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The line of a process that ends a job stands among its last ones.
void expect_said(const JobResult& result, const std::string& text) {
  EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
}

// All of them speak TLS, also the method with its own coordinator, and one of them is killed.
TEST(SandblasterFaults, WithCertificatesItComesToTheSameBits) {
  const test::Scratch scratch;
  const Words keys{"training.steps=20"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  const JobResult made =
      Job({"certs", scratch.path("certs"), "--hosts", "localhost+127.0.0.1"}).finish();
  ASSERT_EQ(made.exit_status, 0) << made.err;
  Job job(with(small_sandblaster(scratch.path("job"), keys),
               {"--hosts", "localhost", "--certs", scratch.path("certs")}));
  ASSERT_TRUE(job.wait_for("iteration 3: loss", 1, Job::Stream::err));
  const pid_t victim = process_of(job, "coordinator");
  ASSERT_NE(victim, 0);
  kill(victim, SIGKILL);
  const JobResult result = job.finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  expect_said(result, "killed by signal 9");
  expect_same_bits(weights_in(scratch.path("job")), expected);
}

class OneEtcd {
 public:
  OneEtcd() {
    const std::vector<int> ports = server::coordinator::test::free_ports(2);
    address_ = "http://127.0.0.1:" + std::to_string(ports.at(0));
    const std::string peer = "http://127.0.0.1:" + std::to_string(ports.at(1));
    const Words command{kProgram,
                        "--name",
                        "one",
                        "--data-dir",
                        scratch_.path("d"),
                        "--listen-client-urls",
                        address_,
                        "--advertise-client-urls",
                        address_,
                        "--listen-peer-urls",
                        peer,
                        "--initial-advertise-peer-urls",
                        peer,
                        "--initial-cluster",
                        "one=" + peer,
                        "--initial-cluster-state",
                        "new",
                        "--log-level",
                        "error"};
    program_ =
        std::make_unique<server::coordinator::test::Program>(command, scratch_.path("output"));
  }
  static bool there() { return fs::exists(kProgram); }
  const std::string& address() const { return address_; }

 private:
  static constexpr const char* kProgram = "/usr/bin/etcd";
  test::Scratch scratch_;
  std::string address_;
  std::unique_ptr<server::coordinator::test::Program> program_;
};

TEST(SandblasterFaults, WithItsStateInEtcdItComesToTheSameBits) {
  if (!OneEtcd::there()) LEAVE_OUT("there is no etcd: tools/setup.sh --tests installs etcd-server");
  const test::Scratch scratch;
  const OneEtcd etcd;
  Words keys{"training.steps=20"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  keys.push_back("sandblaster.etcd=[\"" + etcd.address() + "\"]");
  Job job(small_sandblaster(scratch.path("job"), keys));
  ASSERT_TRUE(job.wait_for("iteration 3: loss", 1, Job::Stream::err));
  EXPECT_FALSE(fs::exists(scratch.path("job/server/coordinator")));
  for (int times = 1; times <= 2; ++times) {
    const pid_t victim = process_of(job, "coordinator");
    ASSERT_NE(victim, 0);
    kill(victim, SIGKILL);
    ASSERT_TRUE(job.wait_for(", goes on", times, Job::Stream::err));
  }
  const JobResult result = job.finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.err.find("can't be removed"), std::string::npos) << result.err;
  expect_same_bits(weights_in(scratch.path("job")), expected);
}

// What is too large for etcd is said at once: nobody waits for a coordinator that doesn't come.
TEST(SandblasterFaults, WhatTheCoordinatorRefusesIsSaidAtOnce) {
  if (!OneEtcd::there()) LEAVE_OUT("there is no etcd: tools/setup.sh --tests installs etcd-server");
  const test::Scratch scratch;
  const OneEtcd etcd;
  const JobResult result =
      Job(small_sandblaster(scratch.path("job"), {"sandblaster.history=200",
                                                  "sandblaster.etcd=[\"" + etcd.address() + "\"]"}))
          .finish();
  EXPECT_EQ(result.exit_status, 2) << result.err;
  expect_said(result, "history = 200: what is known of so many steps has up to ");
  // Who waits until there is no patience left exits so.
  EXPECT_EQ(result.err.find("exited with status 1"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("convoy evaluator: coordinator "), std::string::npos) << result.err;
}

// More replicas than portions: one at a time has something to do, and it is killed.
TEST(SandblasterFaults, OfOnePortionItIsWhoeverHasIt) {
  const test::Scratch scratch;
  const Words keys{"training.steps=30", "sandblaster.portion=10000", "sandblaster.replicas=3"};
  const train::Tensors expected = in_one_process(scratch.path("one"), keys);
  Job job(small_sandblaster(scratch.path("job"), keys));
  int iteration = 2;
  for (const char* name : {"replica-0", "replica-1", "replica-2"}) {
    const std::string line = "iteration " + std::to_string(iteration) + ": loss";
    ASSERT_TRUE(job.wait_for(line, 1, Job::Stream::err));
    const pid_t victim = process_of(job, "replica", name);
    ASSERT_NE(victim, 0);
    kill(victim, SIGKILL);
    iteration += 4;
  }
  const JobResult result = job.finish();
  ASSERT_EQ(result.exit_status, 0) << result.err;
  expect_said(result, "; 1 portions");
  expect_same_bits(weights_in(scratch.path("job")), expected);
}

// A coordinator goes on with the job that it has, and says so where it is to run another one. So
// does a training that goes on with its servers' data.
TEST(SandblasterFaults, AnotherMethodOrFunctionIsRefused) {
  const test::Scratch scratch;
  const Words words = small_sandblaster(scratch.path("job"), {"training.steps=1000"});
  {
    Job job(words);
    ASSERT_TRUE(job.wait_for("iteration 3: loss", 1, Job::Stream::err));
    kill(job.pid(), SIGTERM);
    const JobResult result = job.finish();
    ASSERT_EQ(result.exit_status, 75) << result.err;
  }
  const std::string data = scratch.path("job/server");
  for (const auto& [key, value, had] :
       {std::tuple{"sandblaster.l2", "0.5", "1e-04"},
        std::tuple{"sandblaster.method", "\"gradient_descent\"", "\"lbfgs\""}}) {
    const JobResult result = Job({"coordinator", data + "/recipe.toml", "--data",
                                  data + "/coordinator", "--set", std::string(key) + "=" + value})
                                 .finish();
    EXPECT_EQ(result.exit_status, 2);
    expect_said(result, "the job in " + data + "/coordinator was begun with another recipe: " +
                            key + " is " + value + ", of the job that is there it is " + had +
                            "; name its recipe, or another folder");
  }
  // From the checkpoint then, whose loss and gradients are of that function.
  const JobResult other = Job(with(words, {"--set", "sandblaster.l2=0.5", "--resume"})).finish();
  EXPECT_EQ(other.exit_status, 2) << other.err;
  expect_said(other, "since the recipe has another sandblaster.l2");
  expect_said(other, "sandblaster.l2 is 0.5, in the checkpoint it is 1e-04");
  EXPECT_EQ(other.err.find("starting it again"), std::string::npos) << other.err;
  expect_said(other, "what was there before this job is as it was");
  EXPECT_TRUE(fs::exists(data + "/job.json"));
}

// What another process would find again ends the job with an error: nobody takes it for the end of
// the optimization, or tries it again.
TEST(SandblasterFaults, WhatTheMethodCanNotGoOnWithEndsTheJobWithAnError) {
  const test::Scratch scratch;
  const Words words = small_sandblaster(scratch.path("job"), {"training.steps=1000"});
  {
    Job job(words);
    ASSERT_TRUE(job.wait_for("iteration 3: loss", 1, Job::Stream::err));
    kill(job.pid(), SIGTERM);
    ASSERT_EQ(job.finish().exit_status, 75);
  }
  server::coordinator::test::give_other_answers(scratch.path("job/server/coordinator"));
  // Without its coordinator the evaluator has nothing that it could save.
  const JobResult result = Job(with(words, {"--resume", "--grace", "1"})).finish();
  EXPECT_EQ(result.exit_status, 2) << result.err;
  expect_said(result, "the optimization can't go on: answer 1 of 1 that are stored");
  // Of the coordinator, or of the evaluator that it told.
  expect_said(result, " exited with status 2; the other 5 roles were ended");
  EXPECT_EQ(result.err.find("starting it again"), std::string::npos) << result.err;
  EXPECT_EQ(result.out.find("done after"), std::string::npos) << result.out;
  EXPECT_TRUE(fs::exists(scratch.path("job/server/job.json")));
}

}  // namespace
}  // namespace convoy::cli
