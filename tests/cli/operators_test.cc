// What `convoy bench operators` counts, against shapes that are known and networks that are data.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/operators/costs.h"
#include "cli/bench/operators/observer.h"
#include "cli/bench/operators/table.h"
#include "convoy/model/blueprint.h"
#include "convoy/model/factory.h"
#include "convoy/model/stage.h"

namespace convoy::cli::operators {
namespace {

using Sizes = std::vector<std::int64_t>;

// In float32.
Operand made(Sizes sizes, const void* storage = nullptr) {
  std::int64_t bytes = 4;
  for (const std::int64_t size : sizes) bytes *= size;
  return {true, std::move(sizes), bytes, storage};
}

const Operand kNone = {};

TEST(OperatorCosts, OfConvolutions) {
  const Operand images = made({8, 64, 56, 56}), weight = made({128, 64, 3, 3}), bias = made({128}),
                outputs = made({8, 128, 28, 28});
  const std::int64_t macs = 8LL * 128 * 28 * 28 * 64 * 3 * 3;
  const std::int64_t bytes = images.bytes + weight.bytes + outputs.bytes;
  EXPECT_EQ(cost_of({"aten::conv2d", "", {images, weight, bias}, {outputs}}),
            (OperatorCost{2 * macs, bytes + bias.bytes}));
  const Call backward{
      "aten::convolution_backward", "", {outputs, images, weight}, {images, weight, kNone}};
  EXPECT_EQ(cost_of(backward), (OperatorCost{4 * macs, bytes + images.bytes + weight.bytes}));
  EXPECT_EQ(shapes_of(backward), "8x64x56x56 * 128x64x3x3");
  // The first one of a network has no gradient of its images.
  EXPECT_EQ(
      cost_of({"aten::convolution_backward", "", {outputs, images, weight}, {kNone, weight, bias}}),
      (OperatorCost{2 * macs, bytes + weight.bytes + bias.bytes}));
  // One of the groups' channels for each output.
  EXPECT_EQ(
      cost_of(
          {"aten::conv2d", "", {made({2, 32, 7, 7}), made({32, 1, 3, 3})}, {made({2, 32, 7, 7})}})
          .flops,
      2 * 2 * 32 * 7 * 7 * 9);
}

TEST(OperatorCosts, OfProducts) {
  const Operand a = made({4, 800}), b = made({800, 500}), c = made({4, 500}), bias = made({500});
  constexpr std::int64_t kFlops = 2 * 4 * 800 * 500;
  EXPECT_EQ(cost_of({"aten::mm", "", {a, b}, {c}}),
            (OperatorCost{kFlops, a.bytes + b.bytes + c.bytes}));
  EXPECT_EQ(cost_of({"aten::addmm", "", {bias, a, b}, {c}}),
            (OperatorCost{kFlops, a.bytes + b.bytes + c.bytes + bias.bytes}));
  EXPECT_EQ(cost_of({"aten::linear", "", {a, made({500, 800}), bias}, {c}}).flops, kFlops);
  EXPECT_EQ(cost_of({"aten::bmm", "", {made({3, 4, 5}), made({3, 5, 6})}, {made({3, 4, 6})}}).flops,
            2 * 3 * 4 * 5 * 6);
  // What it is written to is not read.
  const int memory = 0;
  const Operand there = made({4, 500}, &memory);
  EXPECT_EQ(cost_of({"aten::mm", "out", {a, b, there}, {there}}),
            (OperatorCost{kFlops, a.bytes + b.bytes + c.bytes}));
}

// Of 2 images and 3 heads, 5 tokens see 7 others.
TEST(OperatorCosts, OfAttention) {
  const int memory = 0;
  const auto part = [&memory](Sizes sizes, std::int64_t offset) {
    Operand operand = made(std::move(sizes), &memory);
    operand.offset = offset;
    return operand;
  };
  const Operand query = part({2, 3, 5, 8}, 0), key = part({2, 3, 7, 8}, 240),
                value = part({2, 3, 7, 4}, 576), outputs = made({2, 3, 5, 4});
  constexpr std::int64_t kFlops = 2 * 2 * 3 * 5 * 7 * (8 + 4);
  // Parts of one storage are each read.
  const std::int64_t bytes = query.bytes + key.bytes + value.bytes;
  const Call forward{"aten::scaled_dot_product_attention", "", {query, key, value}, {outputs}};
  EXPECT_EQ(cost_of(forward), (OperatorCost{kFlops, bytes + outputs.bytes}));
  EXPECT_EQ(shapes_of(forward), "2x3x5x8 * 2x3x7x8");
  const Call backward{"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                      "",
                      {outputs, query, key, value, outputs},
                      {made({2, 3, 5, 8}), made({2, 3, 7, 8}), made({2, 3, 7, 4})}};
  EXPECT_EQ(cost_of(backward), (OperatorCost{2 * kFlops, 2 * bytes + 2 * outputs.bytes}));
  EXPECT_EQ(shapes_of(backward), "2x3x5x8 * 2x3x7x8");
}

TEST(OperatorCosts, OfWhatMovesMemory) {
  const int memory = 0, other = 0;
  const Operand x = made({10, 10}, &memory), y = made({10, 10}, &other);
  const auto bytes = [](const Call& call) { return cost_of(call).bytes; };
  EXPECT_EQ(bytes({"aten::relu", "", {x}, {y}}), 800);
  EXPECT_EQ(bytes({"aten::relu_", "", {x}, {x}}), 800);
  EXPECT_EQ(bytes({"aten::add_", "Tensor", {x, y}, {x}}), 1200);
  EXPECT_EQ(bytes({"aten::mul", "Tensor", {x, x}, {y}}), 800);
  EXPECT_EQ(bytes({"aten::copy_", "", {x, y}, {x}}), 800);
  EXPECT_EQ(bytes({"aten::fill_", "Scalar", {x}, {x}}), 400);
  EXPECT_EQ(bytes({"aten::view", "", {x}, {x}}), 0);
  EXPECT_EQ(bytes({"aten::contiguous", "", {x}, {x}}), 0);
  // What lies elsewhere afterwards was copied.
  EXPECT_EQ(bytes({"aten::reshape", "", {x}, {x}}), 0);
  EXPECT_EQ(bytes({"aten::reshape", "", {x}, {y}}), 800);
  EXPECT_EQ(bytes({"aten::t_", "", {x}, {x}}), 0);
  EXPECT_EQ(bytes({"aten::slice_backward", "", {x}, {y}}), 800);
  EXPECT_EQ(bytes({"aten::threshold_backward", "grad_input", {x, x, y}, {y}}), 800);
  // Gradient and places of the largest are read, and of the input the shape alone.
  EXPECT_EQ(
      bytes({"aten::max_pool2d_with_indices_backward", "", {made({5, 5}), x, made({5, 5})}, {y}}),
      600);
  EXPECT_EQ(bytes({"aten::empty_like", "", {x}, {y}}), 0);
  EXPECT_EQ(bytes({"aten::item", "", {x}, {}}), 400);
}

TEST(OperatorCosts, HaveTheKindOfTheirForward) {
  const std::map<std::string, std::string> kinds{
      {"aten::conv2d", "convolution"},
      {"aten::convolution_backward", "convolution"},
      {"aten::_convert_indices_from_coo_to_csr", "other"},
      {"aten::native_batch_norm_backward", "batch norm"},
      {"aten::max_pool2d_with_indices_backward", "pooling"},
      {"aten::threshold_backward", "activation"},
      {"aten::hardtanh_", "activation"},
      {"aten::_log_softmax_backward_data", "loss"},
      {"aten::cross_entropy_loss", "loss"},
      {"aten::add_", "addition"},
      {"aten::addmm", "matrix product"},
      {"aten::t", "view"},
      {"aten::slice_backward", "copy"},
      {"aten::scaled_dot_product_attention", "attention"},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", "attention"},
      {"aten::_to_copy", "copy"},
      {"aten::div", "other"}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(kind_of(name), kind) << name;
}

// A product of 2 * 10^9 FLOPs and no bytes to speak of, a sum of 1.2 * 10^9 bytes, and an update.
ObservedStep step_of(double product_s, double sum_s, double seconds) {
  ObservedStep step;
  const Operand factor{true, {1000, 1000}, 4, nullptr}, large{true, {10, 10}, 400'000'000, nullptr};
  step.calls.push_back(
      {Phase::forward, {"aten::mm", "", {factor, factor}, {factor}}, product_s / 2});
  step.calls.push_back(
      {Phase::forward, {"aten::mm", "", {factor, factor}, {factor}}, product_s / 2});
  step.calls.push_back({Phase::backward, {"aten::add", "", {large, large}, {large}}, sum_s});
  step.seconds = seconds;
  step.phases = {product_s + 0.25, sum_s + 0.5, 1};
  return step;
}

TEST(OperatorTable, AddsUp) {
  const std::vector<ObservedStep> steps{step_of(4, 3, 10), step_of(6, 3, 12), step_of(5, 2, 11)};
  // 4 s of a step's FLOPs, and 2 s of its sum.
  const Table table = make_table(steps, 300'000'000, {1e9, 6e8});
  ASSERT_EQ(table.kinds.size(), 2u);
  const OperatorRow &product = table.kinds[0], &sum = table.kinds[1];
  EXPECT_EQ(product.kind, "matrix product");
  EXPECT_EQ(product.phase, Phase::forward);
  EXPECT_EQ(product.calls, 2);
  EXPECT_EQ(product.cost.flops, 4'000'000'000);
  EXPECT_FALSE(product.memory_bound);
  EXPECT_DOUBLE_EQ(product.time_s, 5);
  EXPECT_DOUBLE_EQ(product.least_s, 4);
  EXPECT_DOUBLE_EQ(product.most_s, 6);
  EXPECT_DOUBLE_EQ(product.limit_s, 4);
  EXPECT_EQ(sum.kind, "addition");
  EXPECT_EQ(sum.phase, Phase::backward);
  EXPECT_TRUE(sum.memory_bound);
  EXPECT_DOUBLE_EQ(sum.time_s, 3);
  EXPECT_DOUBLE_EQ(sum.limit_s, 2);
  ASSERT_EQ(table.shapes.size(), 2u);
  EXPECT_EQ(table.shapes[0].name, "mm");
  EXPECT_EQ(table.shapes[0].shapes, "1000x1000 * 1000x1000");

  EXPECT_DOUBLE_EQ(table.step_s, 11);
  EXPECT_DOUBLE_EQ(table.update_limit_s, 0.5);
  EXPECT_DOUBLE_EQ(table.limit_s, 6.5);
  EXPECT_DOUBLE_EQ(table.outside_s[0], 0.25);
  EXPECT_DOUBLE_EQ(table.outside_s[1], 0.5);
  EXPECT_DOUBLE_EQ(table.outside_s[2], 1);
  EXPECT_DOUBLE_EQ(table.between_s, 11 - 5.25 - 3.5 - 1);
  EXPECT_DOUBLE_EQ(table.gap.products_below, 1);
  EXPECT_DOUBLE_EQ(table.gap.products_memory, 0);
  EXPECT_DOUBLE_EQ(table.gap.others_memory, 2);
  EXPECT_DOUBLE_EQ(table.gap.others_below, 1);
  EXPECT_DOUBLE_EQ(table.gap.update, 1);
  EXPECT_DOUBLE_EQ(table.gap.rest, 2);
  EXPECT_DOUBLE_EQ(fastest_flops(steps), 4e9 / 5);
}

// By phase and kind.
using Counts = std::map<std::pair<Phase, std::string>, std::int64_t>;

TEST(OperatorObserver, CountsWhatTheBlueprintSays) {
  constexpr std::int64_t kImages = 2;
  const model::Blueprint blueprint = model::make_blueprint("resnet50", {.classes = 10}, 32);
  const auto shapes = model::shapes_of(blueprint, blueprint.inputs);
  const std::int64_t macs = model::cost_of(blueprint, blueprint.inputs).macs;
  const std::int64_t first = model::cost_of(blueprint.stages[0], 0, shapes[0].layers[0]).macs;
  ASSERT_GT(first, 0);
  model::StagedNetwork network(blueprint, 1);
  const torch::Tensor images = torch::rand({kImages, 3, 32, 32});
  const torch::Tensor labels = torch::zeros({kImages}, torch::kLong);
  Counts calls, flops;
  {
    Observer observer;
    torch::cross_entropy_loss(network.forward(images), labels).backward();
    for (const TimedCall& timed : observer.take()) {
      const std::pair key{timed.phase, std::string(kind_of(timed.call.name))};
      EXPECT_GE(timed.seconds, 0) << timed.call.name;
      ++calls[key];
      flops[{timed.phase, ""}] += cost_of(timed.call).flops;
    }
    EXPECT_TRUE(observer.take().empty());
  }
  EXPECT_EQ((flops[{Phase::forward, ""}]), 2 * kImages * macs);
  // Of weights and of inputs, but for the images.
  EXPECT_EQ((flops[{Phase::backward, ""}]), 2 * kImages * (2 * macs - first));
  EXPECT_EQ((flops[{Phase::update, ""}]), 0);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    EXPECT_EQ((calls[{phase, "convolution"}]), 53) << name_of(phase);
    EXPECT_EQ((calls[{phase, "batch norm"}]), 53) << name_of(phase);
    EXPECT_EQ((calls[{phase, "activation"}]), 49) << name_of(phase);
  }
}

TEST(OperatorObserver, TellsThePhasesOfAStep) {
  const torch::Tensor weight = torch::ones({3, 3}, torch::requires_grad());
  Observer observer;
  torch::mm(weight, weight).sum().backward();
  {
    const torch::NoGradGuard no_grad;
    weight.sub_(weight.grad());
  }
  std::map<std::string, std::vector<Phase>> phases;
  for (const TimedCall& timed : observer.take()) {
    if (timed.call.name != "aten::t") phases[timed.call.name].push_back(timed.phase);
  }
  EXPECT_EQ(phases.at("aten::mm"), (std::vector{Phase::forward, Phase::backward, Phase::backward}));
  EXPECT_EQ(phases.at("aten::sub_"), std::vector{Phase::update});
  // What was taken is not given again.
  torch::mm(weight, weight);
  EXPECT_EQ(observer.take().size(), 1u);
}

}  // namespace
}  // namespace convoy::cli::operators
