// What goes wrong in a Sandblaster job: replicas that are lost, vectors that are gone, losses that
// are none.
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/train/trained.h"
#include "tests/train/sandblaster_fixture.h"

namespace convoy::train {
namespace {

// Softmax that has no loss where a weight is larger than it may be.
class Fenced final : public model::Network {
 public:
  Fenced(std::int64_t classes, double largest, std::shared_ptr<std::atomic<int>> beyond)
      : classes_(classes), largest_(largest), beyond_(std::move(beyond)) {
    fc_ = register_module("fc", torch::nn::Linear(36, classes));
    const torch::NoGradGuard no_grad;
    fc_->weight.copy_(torch::linspace(-0.1, 0.1, fc_->weight.numel()).view({classes, 36}));
    fc_->bias.zero_();
  }
  torch::Tensor forward(torch::Tensor x) override {
    x = fc_(x.flatten(1));
    if (fc_->weight.abs().max().item<double>() <= largest_) return x;
    ++*beyond_;
    return x * std::numeric_limits<double>::quiet_NaN();
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
  double largest_;
  std::shared_ptr<std::atomic<int>> beyond_;
  torch::nn::Linear fc_{nullptr};
};

TEST_F(SandblasterTest, WhoIsGivenUpTakesPartAgain) {
  const Recipe r = recipe();
  FakeBatchJob<double> plain(r, 0);
  Outcome outcome = run(plain, r);
  ASSERT_EQ(outcome.error, "");
  const std::vector<double> expected = plain.weights(plain.state().weights);
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> groups{0};
  std::atomic<bool> dropped{false};
  job.before_add = [&](std::uint64_t client, const server::PortionGroup&) {
    if (++groups > 10 && !dropped.exchange(true)) job.drop(client);
  };
  outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(dropped);
  EXPECT_EQ(outcome.replicas[0].joined + outcome.replicas[1].joined, 3u);
  EXPECT_EQ(job.weights(job.state().weights), expected);
}

// Who comes back late finds that others have done its groups, and that the weights of their
// evaluation are gone.
TEST_F(SandblasterTest, WeightsThatAreGoneAreNoMistake) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 0);
  std::atomic<int> fetches{0};
  job.before_fetch = [&](std::uint64_t client, const optim::VectorName& name) {
    if (name.iteration != 1 || fetches++ > 0) return;
    job.hand_out_again(client);
    ASSERT_TRUE(job.wait_past({name.iteration, name.evaluation}));
    throw UsageError("there is no such vector");
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_GE(fetches, 2);
  EXPECT_EQ(outcome.result.steps, 6);
}

// Those of an evaluation that goes on are missed.
TEST_F(SandblasterTest, WeightsThatAreMissingAreSaid) {
  const Recipe r = recipe({"sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 0);
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name.iteration == 1) throw UsageError("there is no such vector");
  };
  EXPECT_EQ(run(job, r).error, "there is no such vector");
}

TEST_F(SandblasterTest, AFirstLossThatIsNotFiniteIsSaid) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId&, double) { return INFINITY; };
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("the first loss or gradient is not finite"), std::string::npos)
      << outcome.error;
  EXPECT_NE(outcome.error.find("Look at the data"), std::string::npos) << outcome.error;
}

// All ranks of an evaluator end, and say the same.
TEST_F(SandblasterTest, AFirstLossThatIsNotFiniteIsSaidByDividedReplicasToo) {
  const Recipe r = recipe({"grid.partitions=2"});
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId&, double) { return INFINITY; };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.evaluator.size(), 2u);
  for (const std::string& error : outcome.evaluator)
    EXPECT_EQ(error.find("the first loss or gradient is not finite. Look at the data"), 0u)
        << error;
}

// The network itself has no loss there, so that no rank sends a gradient.
TEST_F(SandblasterTest, WhereADividedNetworkHasNoFirstLossItIsSaid) {
  for (const char* partitions : {"grid.partitions=1", "grid.partitions=2"}) {
    SCOPED_TRACE(partitions);
    const Recipe r = recipe({partitions, "data.mean=[3e38]", "data.deviation=[1e-9]"});
    FakeBatchJob<double> job(r, 1);
    const Outcome outcome = run(job, r);
    EXPECT_FALSE(outcome.evaluator.empty());
    for (const std::string& error : outcome.evaluator)
      EXPECT_EQ(error.find("the first loss or gradient is not finite. Look at the data"), 0u)
          << error;
  }
}

// What a rank behind the first is refused the first one says; the other doesn't wait for it.
TEST_F(SandblasterTest, AGroupThatARankIsRefusedIsSaid) {
  const Recipe r = recipe({"grid.partitions=2", "sandblaster.replicas=1"});
  FakeBatchJob<double> job(r, 1);
  std::atomic<std::uint64_t> first{UINT64_MAX};
  job.before_add = [&](std::uint64_t client, const server::PortionGroup&) {
    std::uint64_t other = first.load();
    while (client < other && !first.compare_exchange_weak(other, client)) {
    }
    if (client != first) throw UsageError("shard 0: no such group");
  };
  const Outcome outcome = run(job, r);
  EXPECT_NE(outcome.error.find("another rank of this replica could not do its part"),
            std::string::npos)
      << outcome.error;
}

// What an evaluator has fetched for a checkpoint needs nobody else any more.
TEST_F(SandblasterTest, WhatIsInHandIsSavedThoughTheCoordinatorIsGone) {
  for (const std::string partitions : {"1", "2"}) {
    SCOPED_TRACE(partitions);
    const std::string folder = scratch_.path() + "/run-of-" + partitions;
    // Nothing before the end asks for weights.
    const Recipe r = recipe({"grid.partitions=" + partitions, "output.folder=\"" + folder + "\"",
                             "evaluation.every_epochs=0", "checkpoint.every_epochs=0",
                             "checkpoint.every_minutes=0"});
    FakeBatchJob<double> job(r, 1);
    job.before_let_go = [] { throw Failure("the coordinator is gone"); };
    const Outcome outcome = run(job, r);
    ASSERT_FALSE(outcome.evaluator.empty());
    for (const std::string& error : outcome.evaluator)
      EXPECT_NE(error.find("the coordinator is gone"), std::string::npos) << error;
    const State state = saved(find_trained(registry_, folder, Which::newest, {}).path);
    EXPECT_EQ(state.lists.at("batch").front(), "iteration 6");
    EXPECT_TRUE(state.optimizer.contains("gradient/fc1.weight"));
  }
}

// The first rank alone lets go, here behind an evaluation; the others don't wait for it in what
// comes next.
TEST_F(SandblasterTest, WhereAnEvaluatorMayNotLetGoAllItsRanksSayWhy) {
  const Recipe r =
      recipe({"grid.partitions=2", "training.steps=100000", "sandblaster.gradient_norm=0",
              "checkpoint.every_epochs=0", "checkpoint.every_minutes=0"});
  FakeBatchJob<double> job(r, 1);
  job.before_let_go = [] { throw UsageError("the coordinator has another evaluator"); };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.evaluator.size(), 2u);
  for (const std::string& error : outcome.evaluator)
    EXPECT_EQ(error, "rank 0: the coordinator has another evaluator");
}

// A step to where the loss is none is too long.
TEST_F(SandblasterTest, ALaterLossThatIsNotFiniteShortensTheStep) {
  const Recipe r = recipe();
  FakeBatchJob<double> job(r, 1);
  job.loss_of = [](const server::EvaluationId& id, double loss) {
    return id == server::EvaluationId{1, 0} || id == server::EvaluationId{1, 1} ? INFINITY : loss;
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_LT(job.state().loss, 1.2);
}

// Replicas send no gradient then, and nobody waits for one.
TEST_F(SandblasterTest, WhereTheNetworkHasNoLossTheStepIsShorter) {
  const auto beyond = std::make_shared<std::atomic<int>>(0);
  static constexpr double kLargest = 0.105;
  registry_.add_model("fenced", [beyond](const ModelRequest& r) {
    return std::make_shared<Fenced>(r.classes, kLargest, beyond);
  });
  std::vector<double> expected;
  for (const int replicas : {1, 3}) {
    const Recipe r =
        recipe({"model={name=\"fenced\"}", "sandblaster.replicas=" + std::to_string(replicas)});
    FakeBatchJob<double> job(r, replicas == 1 ? 0 : 1);
    *beyond = 0;
    const Outcome outcome = run(job, r);
    ASSERT_EQ(outcome.error, "");
    EXPECT_GT(*beyond, 0);
    EXPECT_GT(outcome.result.steps, 0);
    const std::vector<double>& last = job.weights(job.state().weights);
    for (std::size_t i = 0; i < 36u * 3; ++i) EXPECT_LE(std::abs(last[i]), kLargest);
    if (replicas == 1) expected = last;
    EXPECT_EQ(last, expected);
  }
}

}  // namespace
}  // namespace convoy::train
