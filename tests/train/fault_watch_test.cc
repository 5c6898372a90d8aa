// What a step that is watched shows of where it went wrong, and how ranks say it together.
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "convoy/model/modules.h"
#include "tests/train/said.h"
#include "tests/train/trainer_fixture.h"
#include "train/fault/found.h"
#include "train/fault/watch.h"

namespace convoy::train {
namespace {

using FaultWatchTest = TrainerTest;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Says where a MaskedSoftmax divides by 0.
enum class Broken { nowhere, before_mask, behind_softmax };

// With infinities that are meant to be there.
class MaskedSoftmax final : public model::Network {
 public:
  explicit MaskedSoftmax(Broken broken)
      : broken_(broken), fc_(register_module("fc", torch::nn::Linear(36, 4))) {}
  torch::Tensor forward(torch::Tensor x) override {
    x = fc_(x.flatten(1));
    torch::Tensor mask = torch::zeros_like(x);
    mask.select(1, 0).fill_(-kInfinity);
    if (broken_ == Broken::before_mask) x = (x - x) / (x - x);
    x = (x + mask).softmax(1);
    return broken_ == Broken::behind_softmax ? x / (x - x) : x;
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 4; }

 private:
  Broken broken_;
  torch::nn::Linear fc_;
};

// Makes infinities finite in place, and writes others to the same memory.
class ReusedMemory final : public model::Network {
 public:
  ReusedMemory() : fc_(register_module("fc", torch::nn::Linear(36, 4))) {}
  torch::Tensor forward(torch::Tensor x) override {
    x = fc_(x.flatten(1));
    torch::Tensor y = torch::full({2, 4}, kInfinity).sigmoid_();
    return y.add_(x / (x - x));
  }
  std::array<std::int64_t, 3> image_shape() const override { return {1, 6, 6}; }
  std::int64_t classes() const override { return 4; }

 private:
  torch::nn::Linear fc_;
};

using LossOf = std::function<torch::Tensor(const torch::Tensor& output)>;

std::optional<FaultOrigin> look_at_step(model::Network& network, const LossOf& loss_of) {
  const testing_data::Stripes data(61);
  const std::vector<std::size_t> samples{4, 9};
  TaskBatch batch;
  batch.tensors["images"] = torch::ones({2, 1, 6, 6});
  batch.samples = samples;
  batch.weight = 2;
  FaultWatch watch(network, data);
  watch.begin_part(batch, 0);
  const TensorList outputs = network.run({batch.tensors.at("images")});
  watch.has_outputs(outputs);
  const torch::Tensor loss = loss_of(outputs.at(0));
  watch.has_loss(loss);
  loss.backward();
  return watch.found();
}

TEST_F(FaultWatchTest, DoesNotBlameInfinitiesThatAreMeant) {
  const LossOf sum = [](const torch::Tensor& output) { return output.square().sum(); };
  const auto good = std::make_shared<MaskedSoftmax>(Broken::nowhere);
  EXPECT_FALSE(look_at_step(*good, sum));
  for (const Broken broken : {Broken::before_mask, Broken::behind_softmax}) {
    const auto network = std::make_shared<MaskedSoftmax>(broken);
    const auto found = look_at_step(*network, sum);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, FaultKind::activation);
    EXPECT_EQ(found->place.operation, "div");
    EXPECT_TRUE(found->place.behind);
    EXPECT_EQ(found->place.name, "fc");
  }
}

TEST_F(FaultWatchTest, StatisticsAreAsTheyWereBefore) {
  model::ModuleList list("Normed", {1, 6, 6});
  list.add("bn", torch::nn::BatchNorm2d(1)).add("flat", torch::nn::Flatten());
  list.add("fc", torch::nn::Linear(36, 4));
  const std::shared_ptr<model::Network> network = list.network();
  network->train();
  const LossOf sum = [](const torch::Tensor& output) { return output.sum(); };
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& buffer : network->buffers()) before.push_back(buffer.clone());
  ASSERT_EQ(before.size(), 3u);  // batches among them
  EXPECT_FALSE(look_at_step(*network, sum));
  const std::vector<torch::Tensor> buffers = network->buffers();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(buffers[i].equal(before[i]));
  network->run({torch::ones({2, 1, 6, 6})});
  EXPECT_FALSE(network->buffers()[0].equal(before[0])) << "as it is otherwise";
}

TEST_F(FaultWatchTest, WhatWasInTheSameMemoryBeforeIsNotBlamed) {
  const auto network = std::make_shared<ReusedMemory>();
  const auto found =
      look_at_step(*network, [](const torch::Tensor& output) { return output.square().sum(); });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->place.operation, "div");
}

TEST_F(FaultWatchTest, TellsTheLossFromTheNetwork) {
  const auto network = std::make_shared<MaskedSoftmax>(Broken::nowhere);
  const auto value = look_at_step(
      *network, [](const torch::Tensor& output) { return (output - output).log().sum(); });
  ASSERT_TRUE(value);
  EXPECT_EQ(value->kind, FaultKind::loss);
  expect_part(found_fault(all(), value, true, false).text,
              "run once more, the network's outputs are finite, and the loss of them isn't, from "
              "its operation 'log' on");
  const auto gradient = look_at_step(*network, [](const torch::Tensor& output) {
    return (output - output.detach()).sqrt().sum();
  });
  ASSERT_TRUE(gradient);
  EXPECT_EQ(gradient->kind, FaultKind::gradient);
  const FoundFault said = found_fault(all(), gradient, true, false);
  expect_part(said.text,
              "the first gradient that isn't finite is one of the loss, at SqrtBackward");
  EXPECT_EQ(said.where, "loss");
}

TEST_F(FaultWatchTest, TheFirstOfAllRanksCounts) {
  const int last = all().size() - 1;
  FaultOrigin own;
  own.place.name = "layer" + std::to_string(all().rank());
  own.place.type = "Linear";
  own.order = 10 - all().rank();
  const auto expect_named = [&](int rank) {
    const FoundFault said = found_fault(all(), own, true, true);
    EXPECT_EQ(said.where, "layer" + std::to_string(rank));
    EXPECT_FALSE(said.of_data);
    const std::string part = ", in micro-batch " + std::to_string(rank == 0 && last > 0 ? 1 : 2);
    const std::string on = last > 0 ? ", on rank " + std::to_string(rank) : "";
    EXPECT_TRUE(said.text.ends_with("' (Linear)" + part + on)) << said.text;
  };
  own.part = 1;
  expect_named(last);
  if (last == 0) return;
  own.part = all().rank() == 0 ? 0 : 1;
  expect_named(0);
}

TEST_F(FaultWatchTest, SaysWhereNothingWasFound) {
  const FoundFault gone = found_fault(all(), std::nullopt, false, false);
  EXPECT_EQ(gone.text, "run once more, it did not happen again");
  EXPECT_TRUE(gone.where.empty());
  const FoundFault sums = found_fault(all(), std::nullopt, true, false);
  expect_part(sums.text, "run once more, it is so again, and no output, and no gradient on");
  EXPECT_TRUE(sums.where.empty());
}

TEST_F(FaultWatchTest, TypesHaveTheNamesThatPeopleCallThem) {
  EXPECT_EQ(short_type_name("torch::nn::Conv2dImpl"), "Conv2d");
  EXPECT_EQ(short_type_name("Convolution"), "Convolution");
  EXPECT_EQ(short_type_name("a::(anonymous namespace)::MineImpl"), "Mine");
  EXPECT_EQ(short_type_name("torch::autograd::CppNode<a::(anonymous namespace)::Mine>"), "Mine");
  EXPECT_EQ(short_type_name("a::Of<b::C>"), "Of");
  EXPECT_EQ(short_type_name("SqrtBackward0"), "SqrtBackward0");
}

}  // namespace
}  // namespace convoy::train
