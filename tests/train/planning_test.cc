// What the planner of placements is told of networks and ranks.
#include "convoy/train/planning.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "convoy/model/factory.h"
#include "convoy/train/registry.h"
#include "convoy/train/threads.h"
#include "tests/parallel/mpi_main.h"

namespace convoy::train {
namespace {

PlacementProblem problem_of(const std::string& model, int ranks, std::int64_t samples,
                            std::int64_t size = 0) {
  const Registry registry;
  PlacementProblem problem;
  problem.recipe.model.name = model;
  problem.recipe.optimizer.momentum = 0.9;
  problem.recipe.strategy_options = Options(registry.vocabulary().strategies.at("sync"));
  problem.network = model::make_blueprint(model, {});
  problem.inputs = problem.network.inputs;
  if (size > 0) problem.inputs.front()[1] = problem.inputs.front()[2] = size;
  problem.ranks = ranks;
  problem.samples_per_rank = samples;
  return problem;
}

double bytes_of(const plan::LayerCost& layer) {
  double bytes = 0;
  for (const plan::GradientSize& gradient : layer.gradients) bytes += gradient.bytes;
  return bytes;
}

std::map<std::string, plan::LayerCost> by_name(const plan::TrainingCost& cost) {
  std::map<std::string, plan::LayerCost> layers;
  for (const plan::LayerCost& layer : cost.layers) layers[layer.name] = layer;
  return layers;
}

double all_bytes(const plan::TrainingCost& cost) {
  double bytes = 0;
  for (const plan::LayerCost& layer : cost.layers) bytes += bytes_of(layer);
  return bytes;
}

TEST(TrainingCost, IsThatOfAlexNet) {
  const plan::TrainingCost cost = training_cost(problem_of("alexnet-one-tower", 8, 16));
  EXPECT_EQ(all_bytes(cost), 4.0 * 61838248);
  EXPECT_EQ(cost.optimizer_values, 1);
  EXPECT_EQ(cost.boundary_values, 256 * 6 * 6);
  ASSERT_EQ(cost.layers.size(), cost.head + 3);
  const plan::LayerCost& first = cost.layers[cost.head];
  EXPECT_EQ(first.name, "classifier.1");
  EXPECT_EQ(first.units, 4096);
  EXPECT_EQ(first.output_values, 4096);
  EXPECT_EQ(bytes_of(first), 4.0 * 4096 * (9216 + 1));
  EXPECT_TRUE(first.gradients[0].in_place) << "the weights";
  EXPECT_FALSE(first.gradients[1].in_place) << "the biases";
  EXPECT_EQ(cost.layers.back().name, "classifier.6");
  EXPECT_EQ(cost.layers.back().units, 1000);
  // What a convolution reads has to come from all who have computed it, and nothing else.
  const auto layers = by_name(cost);
  EXPECT_FALSE(layers.at("features.0").gathered);
  EXPECT_FALSE(layers.at("features.1").gathered);
  EXPECT_TRUE(layers.at("features.2").gathered) << "a pool before a convolution";
  EXPECT_EQ(layers.at("features.2").units, 64);
  EXPECT_EQ(layers.at("features.2").output_values, 64 * 27 * 27);
  EXPECT_TRUE(layers.at("classifier.0").gathered) << "the dropout before the first divided layer";
}

TEST(TrainingCost, FollowsReadersThroughStages) {
  const plan::TrainingCost cost = training_cost(problem_of("resnet18", 4, 8));
  EXPECT_EQ(cost.layers.size(), cost.head + 1);
  EXPECT_EQ(cost.layers.back().name, "fc");
  EXPECT_EQ(cost.boundary_values, 512);
  const auto layers = by_name(cost);
  EXPECT_EQ(layers.at("layer1.0.bn1").units, 64);
  EXPECT_EQ(bytes_of(layers.at("layer1.0.bn1")), 4.0 * 2 * 64);
  EXPECT_FALSE(layers.at("layer1.0.conv1").gathered) << "a batch normalization reads it";
  // Of a block, what the next stage's convolutions read.
  EXPECT_EQ(
      std::accumulate(cost.layers.begin(), cost.layers.end(), 0,
                      [](int sum, const auto& layer) { return sum + (layer.gathered ? 1 : 0); }),
      // The pool, one within each of 8 blocks, each block's sum (the last is read by the
      // average pool, whose flattened output fc reads), and fc for the loss.
      1 + 8 + 7 + 1 + 1);
}

TEST(TrainingCost, TakesKeysOfTheStrategy) {
  PlacementProblem problem = problem_of("lenet", 2, 4);
  problem.recipe.strategy_options.set("bucket", std::string("64KiB"));
  problem.recipe.strategy_options.set("wire", std::string("bfloat16"));
  problem.recipe.strategy_options.set("compute_in_buckets", false);
  problem.recipe.optimizer.name = "adam";
  const plan::TrainingCost cost = training_cost(problem);
  EXPECT_EQ(cost.bucket_bytes, 65536);
  EXPECT_EQ(cost.sent_part, 0.5);
  EXPECT_EQ(cost.optimizer_values, 2);
  for (const plan::LayerCost& layer : cost.layers) {
    for (const plan::GradientSize& gradient : layer.gradients) EXPECT_FALSE(gradient.in_place);
  }
  // Where a recipe says that nothing is divided, hybrid has nothing to divide.
  problem.recipe.placement.layers = {{{}, "replicated", {}}};
  const plan::TrainingCost whole = training_cost(problem);
  EXPECT_EQ(whole.head, whole.layers.size());
}

TEST(MeasurePlacement, HasTheTimesOfAllPlacements) {
  set_threads(test_world());
  const PlacementProblem problem = problem_of("lenet", 4, 2);
  const plan::MeasuredPlacement measured = measure_placement(test_world(), problem, 1);
  EXPECT_EQ(measured.model, "lenet");
  EXPECT_GT(measured.machine.processor_share, 0);
  EXPECT_LE(measured.machine.processor_share, 1);
  EXPECT_GT(measured.update_s_per_byte, 0);
  EXPECT_GT(measured.copy_s_per_byte, 0);
  std::map<std::string, std::vector<std::pair<std::int64_t, std::int64_t>>> points;
  for (const auto& layer : measured.layers) {
    for (const plan::PassTime& time : layer.times) {
      points[layer.name].emplace_back(time.samples, time.units);
      EXPECT_GE(time.forward_s, 0);
    }
  }
  using Points = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const plan::TrainingCost cost = training_cost(problem);
  EXPECT_EQ(points.size(), cost.layers.size());
  EXPECT_EQ(points.at(cost.layers.front().name), (Points{{2, 0}}));
  // A rank's samples on one, and on each of 2 and of 4; and those of all of a group.
  EXPECT_EQ(points.at(cost.layers[cost.head].name),
            (Points{{2, 500}, {2, 250}, {4, 250}, {2, 125}, {8, 125}}));
  EXPECT_EQ(points.at(cost.layers.back().name), (Points{{2, 10}, {2, 5}, {4, 5}, {2, 3}, {8, 3}}));
  EXPECT_EQ(measured.network.bandwidth_bytes_per_s > 0, test_world().size() > 1);
  // All ranks plan alike.
  EXPECT_EQ(test_world().communicator().broadcast_text(to_toml(measured), 0), to_toml(measured));
  if (test_world().size() == 1) return;
  EXPECT_GT(measured.network.exchange_bandwidth_bytes_per_s, 0);
  EXPECT_GT(measured.network.latency_s, 0);
  EXPECT_GT(measured.network.processor_s_per_byte, 0);
  const PlacementPlan plan = plan_placement(problem, measured);
  // sync, model parallelism; a, b, bc 2, c on 1 x 4; a, b, c on 2 x 2.
  EXPECT_EQ(plan.forecasts.size(), 9u);
  for (const plan::StepForecast& forecast : plan.forecasts) EXPECT_GT(forecast.step_s, 0);
  EXPECT_NE(plan.forecasts[plan.best].placement.kind, plan::Parallelism::model);
}

}  // namespace
}  // namespace convoy::train
