// Sandblaster jobs from beginning to end: what replicas compute, and what comes of it.
#include "convoy/train/sandblaster.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/train/sandblaster_fixture.h"

namespace convoy::train {
namespace {

TEST_F(SandblasterTest, AnyReplicasAndGroupsComeToTheSameBits) {
  std::vector<double> weights;
  std::string checkpoint;
  for (const auto& [replicas, level] : {std::pair{1, 0}, {2, 1}, {4, 2}, {3, 0}, {1, 3}}) {
    SCOPED_TRACE(std::to_string(replicas) + " replicas, level " + std::to_string(level));
    const Recipe r = recipe({"sandblaster.replicas=" + std::to_string(replicas)});
    FakeBatchJob<double> job(r, static_cast<std::uint8_t>(level));
    const Outcome outcome = run(job, r);
    ASSERT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.result.steps, 6);
    EXPECT_FALSE(outcome.result.stopped);
    EXPECT_EQ(job.ended(), "all iterations are done");
    std::uint64_t portions = 0;
    for (const BatchReplicaResult& replica : outcome.replicas) portions += replica.portions;
    EXPECT_EQ(portions, 8u * static_cast<unsigned>(job.evaluations()));
    const std::vector<double>& mine = job.weights(job.state().weights);
    if (weights.empty()) weights = mine;
    EXPECT_EQ(mine, weights);
    EXPECT_LT(job.state().loss, 0.8);  // it began near log 3
    // The last checkpoint has them.
    const State state = saved(outcome.result.checkpoint);
    std::size_t at = 0;
    for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}) {
      const torch::Tensor tensor = state.model.at(name).contiguous();
      ASSERT_EQ(tensor.scalar_type(), torch::kDouble);
      for (std::int64_t i = 0; i < tensor.numel(); ++i)
        ASSERT_EQ(tensor.const_data_ptr<double>()[i], mine[at++]) << name;
    }
    EXPECT_EQ(at, mine.size());
  }
}

// The loss and its gradient at the first weights, by a network of its own and all samples at once.
TEST_F(SandblasterTest, TheObjectiveIsTheMeanLossOfAllSamples) {
  const Recipe r = recipe({"training.steps=1", "sandblaster.method=gradient_descent"});
  FakeBatchJob<double> job(r, 1);
  double loss = 0;
  std::vector<double> first;
  job.before_fetch = [&](std::uint64_t, const optim::VectorName& name) {
    if (name == optim::VectorName{}) first = job.weights(name);
  };
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  // Its first iteration goes along the gradient: the step's direction is known.
  const std::vector<double>& last = job.weights(job.state().weights);
  std::vector<torch::Tensor> parameters;
  std::size_t at = 0;
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{16, 36}, {16}, {3, 16}, {3}}) {
    torch::Tensor parameter = torch::empty(shape, torch::kDouble);
    std::copy_n(first.begin() + static_cast<std::ptrdiff_t>(at), parameter.numel(),
                parameter.data_ptr<double>());
    at += static_cast<std::size_t>(parameter.numel());
    parameters.push_back(parameter.requires_grad_());
  }
  ASSERT_EQ(at, first.size());
  const testing_data::Stripes stripes(60);
  torch::Tensor images = torch::empty({60, 36}, torch::kFloat),
                labels = torch::empty({60}, torch::kLong);
  std::vector<std::byte> buffer;
  for (std::size_t i = 0; i < 60; ++i) {
    const data::Record record = stripes.read(i, buffer);
    std::memcpy(images.data_ptr<float>() + i * 36, record.bytes.data(), record.bytes.size());
    labels.data_ptr<std::int64_t>()[i] = record.label;
  }
  const auto forward = [&] {
    const torch::Tensor hidden = torch::relu(
        torch::nn::functional::linear(images.to(torch::kDouble), parameters[0], parameters[1]));
    return torch::nn::functional::cross_entropy(
        torch::nn::functional::linear(hidden, parameters[2], parameters[3]), labels);
  };
  const torch::Tensor mean = forward();
  mean.backward();
  loss = mean.item<double>();
  double dot = 0, square = 0, moved = 0;
  at = 0;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    for (std::int64_t i = 0; i < gradient.numel(); ++i, ++at) {
      const double g = gradient.const_data_ptr<double>()[i], step = last[at] - first[at];
      dot -= g * step;
      square += g * g;
      moved += step * step;
    }
  }
  ASSERT_GT(moved, 0);
  EXPECT_NEAR(dot / std::sqrt(square * moved), 1, 1e-12);
  // And the loss is that of the weights that it came to.
  {
    const torch::NoGradGuard no_grad;
    at = 0;
    for (torch::Tensor& parameter : parameters) {
      std::copy_n(last.begin() + static_cast<std::ptrdiff_t>(at), parameter.numel(),
                  parameter.data_ptr<double>());
      at += static_cast<std::size_t>(parameter.numel());
    }
    EXPECT_NEAR(forward().item<double>(), job.state().loss, 1e-13);
    EXPECT_LT(job.state().loss, loss);
  }
}

TEST_F(SandblasterTest, InSinglePrecisionVectorsAreFloats) {
  const Recipe r = recipe({"precision=float32", "training.steps=10"});
  FakeBatchJob<float> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_LT(job.state().loss, 0.6);
  EXPECT_EQ(saved(outcome.result.checkpoint).model.at("fc1.weight").scalar_type(), torch::kFloat);
}

// A replica of two ranks, each with its part of the network.
TEST_F(SandblasterTest, AReplicaMayBeDivided) {
  const Recipe whole = recipe();
  FakeBatchJob<double> one(whole, 1);
  Outcome outcome = run(one, whole);
  ASSERT_EQ(outcome.error, "");
  const State a = saved(outcome.result.checkpoint);
  const Recipe divided = recipe({"grid.partitions=2"});
  FakeBatchJob<double> two(divided, 1);
  outcome = run(two, divided);
  ASSERT_EQ(outcome.error, "");
  EXPECT_NEAR(two.state().loss, one.state().loss, 1e-9 * one.state().loss);
  expect_same(saved(outcome.result.checkpoint).model, a.model, 1e-7);
}

TEST_F(SandblasterTest, EndsWhereTheMethodDoes) {
  const Recipe r = recipe({"training.steps=500", "sandblaster.gradient_norm=0.05"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_LT(outcome.result.steps, 500);
  EXPECT_EQ(outcome.result.steps, job.state().iteration);
  EXPECT_FALSE(outcome.result.stopped);
  EXPECT_TRUE(outcome.result.evaluation);
  EXPECT_EQ(outcome.result.evaluated_at, outcome.result.steps);
  EXPECT_EQ(job.ended(), "the gradient is small enough");
}

TEST_F(SandblasterTest, MetricsSayWhoHadWhichPortions) {
  const Recipe r = recipe({"training.steps=3", "output.every_steps=100"});
  FakeBatchJob<double> job(r, 1);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  std::ifstream file(scratch_.path() + "/run/metrics.jsonl");
  double portions = 0, told = 0;
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.at("kind") == "iteration") {
      told += row.at("portions").get<double>();
      EXPECT_EQ(row.at("method_bytes"), 3000);
      EXPECT_EQ(row.at("portion_bytes"), 4000);
    }
    if (row.at("kind") == "step") {
      EXPECT_EQ(row.at("pushed_bytes"), 1000);
      EXPECT_EQ(row.at("fetched_bytes"), 2000);
    }
    if (row.at("kind") != "groups") continue;
    for (const double each : row.at("portions")) portions += each;
    EXPECT_EQ(row.at("began_s").size(), row.at("portions").size());
    for (const std::string name : row.at("replica_names")) names.insert(name);
  }
  EXPECT_EQ(portions, 8.0 * job.evaluations());
  EXPECT_GT(told, 0);
  EXPECT_TRUE(names.contains("replica-1"));
}

// Fewer portions than replicas, and groups that could be larger.
TEST_F(SandblasterTest, OnePortionIsEnough) {
  const Recipe r = recipe({"sandblaster.portion=100", "sandblaster.replicas=3"});
  FakeBatchJob<double> job(r, 0);
  const Outcome outcome = run(job, r);
  ASSERT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.result.steps, 6);
  EXPECT_LT(job.state().loss, 0.8);
}

}  // namespace
}  // namespace convoy::train
