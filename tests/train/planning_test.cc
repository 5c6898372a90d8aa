// What the planner of placements is told of networks and ranks.
#include "convoy/train/planning.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/model/factory.h"
#include "convoy/model/modules.h"
#include "convoy/train/registry.h"
#include "convoy/train/threads.h"
#include "tests/base/scratch.h"
#include "tests/parallel/mpi_main.h"
#include "tests/train/own_keys.h"
#include "tests/train/words.h"
#include "train/planning/processors.h"
#include "train/planning/stopwatch.h"
#include "train/tasks/classification.h"

namespace convoy::train {
namespace {

PlacementProblem problem_of(const std::string& model, int ranks, std::int64_t samples,
                            std::int64_t size = 0) {
  const Registry registry;
  PlacementProblem problem;
  problem.recipe.model.name = model;
  problem.recipe.optimizer.options = own_keys({{"momentum", 0.9}});
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

// "hybrid" with these keys, on four ranks.
std::string name_of_hybrid(const std::string& scheme, std::int64_t senders, std::int64_t passes,
                           std::int64_t partitions) {
  Recipe recipe;
  recipe.strategy = "hybrid";
  recipe.grid.partitions = partitions;
  recipe.strategy_options = Options(Registry().vocabulary().strategies.at("hybrid"));
  recipe.strategy_options.set("scheme", scheme);
  recipe.strategy_options.set("senders", senders);
  recipe.strategy_options.set("passes", passes);
  EXPECT_FALSE(placement_of(recipe).variable_batch);
  recipe.strategy_options.set("variable_batch", true);
  EXPECT_TRUE(placement_of(recipe).variable_batch);
  return plan::name_of(placement_of(recipe), 4);
}

TEST(PlacementOf, IsThatOfTheKeys) {
  EXPECT_EQ(plan::name_of(placement_of(problem_of("lenet", 4, 1).recipe), 4), "sync");
  EXPECT_EQ(name_of_hybrid("a", 0, 0, 4), "hybrid a, 1 x 4");
  EXPECT_EQ(name_of_hybrid("b", 0, 0, 2), "hybrid b, 2 x 2");
  EXPECT_EQ(name_of_hybrid("c", 0, 0, 2), "hybrid c, 2 x 2");
  EXPECT_EQ(name_of_hybrid("c", 0, 8, 4), "hybrid c in 8, 1 x 4");
  EXPECT_EQ(name_of_hybrid("bc", 2, 0, 4), "hybrid bc 2, 1 x 4");
  // What they come to.
  EXPECT_EQ(name_of_hybrid("bc", 1, 0, 4), "hybrid b, 1 x 4");
  EXPECT_EQ(name_of_hybrid("bc", 4, 0, 4), "hybrid c, 1 x 4");
  EXPECT_EQ(name_of_hybrid("b", 0, 0, 1), "hybrid c, 4 x 1");
  EXPECT_EQ(name_of_hybrid("a", 0, 0, 1), "hybrid a, 4 x 1");
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

// What hybrid divides of each network, if anything.
TEST(TrainingCost, SaysWhatHybridCanDivide) {
  const plan::TrainingCost vgg = training_cost(problem_of("vgg16", 4, 16));
  EXPECT_EQ(all_bytes(vgg), 4.0 * 138357544);
  EXPECT_EQ(vgg.boundary_values, 512 * 7 * 7);
  ASSERT_EQ(vgg.layers.size(), vgg.head + 3);
  EXPECT_EQ(vgg.layers[vgg.head].name, "classifier.0");
  EXPECT_EQ(vgg.layers.back().name, "classifier.6");
  const plan::TrainingCost mobile = training_cost(problem_of("mobilenet_v2", 4, 16));
  EXPECT_EQ(mobile.layers.size(), mobile.head + 1);
  // Auxiliary classifiers, or one module, train whole.
  for (const char* name : {"googlenet", "googlenet-bn", "vit_b_16"}) {
    const plan::TrainingCost whole = training_cost(problem_of(name, 4, 16));
    EXPECT_EQ(whole.head, whole.layers.size()) << name;
  }
  PlacementProblem alone = problem_of("googlenet", 4, 16);
  alone.network = model::make_blueprint("googlenet", {.auxiliary = false});
  const plan::TrainingCost divided = training_cost(alone);
  EXPECT_EQ(divided.layers.size(), divided.head + 1);
  EXPECT_EQ(divided.layers.back().name, "fc");
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
  problem.recipe.optimizer = {.name = "adam"};
  const plan::TrainingCost cost = training_cost(problem);
  EXPECT_EQ(cost.bucket_bytes, 65536);
  EXPECT_EQ(cost.sent_part, 0.5);
  EXPECT_FALSE(cost.sums_converted);
  EXPECT_EQ(cost.optimizer_values, 2);
  for (const plan::LayerCost& layer : cost.layers) {
    for (const plan::GradientSize& gradient : layer.gradients) EXPECT_FALSE(gradient.in_place);
  }
  // Where a recipe says that nothing is divided, hybrid has nothing to divide.
  problem.recipe.placement.layers = {{{}, "replicated", {}}};
  const plan::TrainingCost whole = training_cost(problem);
  EXPECT_EQ(whole.head, whole.layers.size());
}

TEST(TrainingCost, KnowsWhatTravelsInAnotherType) {
  const plan::TrainingCost own = training_cost(problem_of("alexnet-one-tower", 2, 4));
  PlacementProblem problem = problem_of("alexnet-one-tower", 2, 4);
  problem.recipe.strategy_options.set("wire", std::string("bfloat16"));
  for (const plan::LayerCost& layer : training_cost(problem).layers) {
    for (const plan::GradientSize& gradient : layer.gradients) EXPECT_FALSE(gradient.in_place);
  }
  problem.recipe.precision = "bfloat16";
  const plan::TrainingCost half = training_cost(problem);
  EXPECT_TRUE(half.sums_converted);
  EXPECT_EQ(half.value_bytes, 2);
  EXPECT_EQ(half.layers[0].activation_bytes, own.layers[0].activation_bytes / 2);
  EXPECT_EQ(bytes_of(half.layers[0]), bytes_of(own.layers[0])) << "parameters are as they were";
  // Dropout between divided layers draws by the numbers of samples.
  EXPECT_TRUE(own.numbers_sent);
  EXPECT_FALSE(training_cost(problem_of("lenet", 2, 4)).numbers_sent);
}

TEST(TrainingCost, HasThePartsOfTheRecipe) {
  PlacementProblem problem = problem_of("lenet", 4, 4);
  problem.recipe.placement.layers = {{{"fc1"}, "partitioned", {1, 3}}};
  const plan::TrainingCost cost = training_cost(problem);
  EXPECT_EQ(cost.layers[cost.head].parts, (std::vector<std::int64_t>{125, 375}));
  EXPECT_TRUE(cost.layers.back().parts.empty());
  EXPECT_EQ(group_sizes(cost, 4), (std::vector<int>{2}));
}

TEST(TrainingCost, ARuleThatFitsNoLayerIsAMistake) {
  PlacementProblem problem = problem_of("lenet", 2, 4);
  problem.recipe.placement.layers = {{{}, "replicated", {}}, {{"fcc1"}, "partitioned", {}}};
  EXPECT_EQ(test::message_of<UsageError>([&] { training_cost(problem); }),
            "placement.layers[1].layers: LeNet has no layer that fits 'fcc1'; did you mean fc1?");
}

TEST(Processors, AreSharedByTheRanksOfAHostAndTheHostsOfAMachine) {
  const auto shares = [](const std::vector<RankCores>& ranks) {
    std::vector<double> shares;
    for (const plan::Processor& processor : processors_of(ranks)) shares.push_back(processor.share);
    return shares;
  };
  using Shares = std::vector<double>;
  EXPECT_EQ(shares({{"m", "h0", 1, 0, 0, {0}}, {"m", "h0", 1, 0, 0, {1}}}), (Shares{1, 1}));
  // Bound to one core together.
  EXPECT_EQ(shares({{"m", "h0", 1, 0, 0, {0}}, {"m", "h0", 1, 0, 0, {0}}}), (Shares{0.5, 0.5}));
  // Four hosts that are one machine of two cores, and four that are machines.
  std::vector<RankCores> four;
  for (const char* host : {"h0", "h1", "h2", "h3"}) four.push_back({"m", host, 1, 0, 0, {0, 1}});
  EXPECT_EQ(shares(four), (Shares{0.5, 0.5, 0.5, 0.5}));
  for (RankCores& rank : four) rank.machine = rank.host;
  EXPECT_EQ(shares(four), (Shares{1, 1, 1, 1}));
  // Two threads on a quota of a fifth; the other host has no quota, and what is left is enough.
  const std::vector<plan::Processor> mixed = processors_of(
      std::vector<RankCores>{{"m", "h0", 2, 0.2, 0.01, {0, 1}}, {"m", "h1", 1, 0, 0, {0, 1}}});
  EXPECT_DOUBLE_EQ(mixed[0].share, 0.1);
  EXPECT_EQ(mixed[0].period_s, 0.01);
  EXPECT_EQ(mixed[1].share, 1);
  EXPECT_EQ(mixed[1].period_s, 0);
  // Quotas that ask for more than there is.
  EXPECT_EQ(shares({{"m", "h0", 1, 0.75, 0.1, {0}}, {"m", "h1", 1, 0.75, 0.1, {0}}}),
            (Shares{0.5, 0.5}));
  // A quota for more than there are threads is none.
  EXPECT_EQ(processors_of(std::vector<RankCores>{{"m", "h0", 1, 8, 0.1, {0, 1}}})[0].period_s, 0);
}

TEST(Stopwatch, LetsWhatWasBegunEndBeforeItLooks) {
  int settled = 0;
  Stopwatch watch(0, [&settled] { ++settled; });
  EXPECT_EQ(settled, 1);
  watch.restart();
  EXPECT_GE(watch.seconds(), 0);
  EXPECT_EQ(settled, 3);
}

// Made-up samples whose loss is that of other scores for each number of samples.
class MadeUpLoss : public Classification {
 public:
  using Classification::Classification;
  TaskBatch blank(std::int64_t samples, const Compute& compute) const override {
    TaskBatch batch;
    batch.tensors["images"] = torch::zeros({samples, 1, 28, 28});
    batch.tensors["labels"] = blank_labels(samples, compute);
    return batch;
  }
  mutable std::vector<std::int64_t> sizes;

 private:
  torch::Tensor loss_of(const torch::Tensor& scores, const torch::Tensor&) const override {
    sizes.push_back(scores.size(0));
    EXPECT_EQ(scores.size(1), 10);
    return scores.sum();
  }
  torch::Tensor probabilities(const torch::Tensor& scores) const override { return scores; }
  torch::Tensor mean_of_views(const torch::Tensor& scores) const override { return scores.mean(1); }
};

TEST(MeasurePlacement, TimesTheLossOfTheTask) {
  set_threads(test_world());
  PlacementProblem problem = problem_of("lenet", 1, 2);
  const Registry registry;
  problem.recipe.task.options = Options(registry.vocabulary().tasks.at("classification"));
  const auto task = std::make_shared<MadeUpLoss>(problem.recipe);
  problem.task = task;
  const plan::MeasuredPlacement measured = measure_placement(test_world(), problem, 1);
  EXPECT_EQ(task->sizes, (std::vector<std::int64_t>{2, 2, 4, 4}));
  ASSERT_EQ(measured.loss.size(), 2u);
  EXPECT_EQ(measured.loss[0].samples, 2);
  EXPECT_EQ(measured.loss[1].samples, 4);
  EXPECT_GT(measured.loss[0].forward_s, 0);
  EXPECT_GT(measured.loss[0].backward_s, 0);
}

// Which the first rank finds to be none.
class LossOfSomeRanks final : public MadeUpLoss {
 public:
  using MadeUpLoss::MadeUpLoss;
  torch::Tensor loss(const TensorList& outputs, const TaskBatch& batch) const override {
    if (test_world().rank() == 0) throw UsageError("the scores are none");
    return MadeUpLoss::loss(outputs, batch);
  }
};

TEST(MeasurePlacement, LeavesOutALossThatSomeRanksCantHave) {
  set_threads(test_world());
  PlacementProblem problem = problem_of("lenet", test_world().size(), 2);
  const Registry registry;
  problem.recipe.task.options = Options(registry.vocabulary().tasks.at("classification"));
  problem.task = std::make_shared<LossOfSomeRanks>(problem.recipe);
  const plan::MeasuredPlacement measured = measure_placement(test_world(), problem, 1);
  EXPECT_TRUE(measured.loss.empty());
  EXPECT_GT(measured.layers.back().times.front().backward_s, 0);
}

TEST(MeasurePlacement, GivesTheNetworkWhatTheTaskDoes) {
  set_threads(test_world());
  PlacementProblem problem;
  problem.recipe.model.name = "letters";
  constexpr std::int64_t kLetters = testing_data::kLetters;
  problem.network = model::ModuleList("Letters", {1})
                        .add("letters", torch::nn::Embedding(kLetters, 8),
                             {.output =
                                  [](const model::Shape&) {
                                    return model::Shape{1, 8};
                                  }})
                        .add("flatten", torch::nn::Flatten())
                        .add("out", torch::nn::Linear(8, kLetters))
                        .blueprint();
  problem.inputs = problem.network.inputs;
  problem.ranks = 2;
  problem.samples_per_rank = 3;
  problem.task = std::make_shared<testing_data::NextLetter>();
  const plan::MeasuredPlacement measured = measure_placement(test_world(), problem, 1);
  EXPECT_EQ(measured.layers.front().name, "letters");
  EXPECT_GT(measured.layers.front().times.front().forward_s, 0);
}

TEST(MeasurePlacement, MeasuresTheLargestPart) {
  set_threads(test_world());
  PlacementProblem problem = problem_of("lenet", 2, 4);
  problem.recipe.placement.layers = {{{"fc1"}, "partitioned", {1, 3}}};
  const plan::MeasuredPlacement measured = measure_placement(test_world(), problem, 1);
  std::vector<std::int64_t> units;
  for (const auto& layer : measured.layers) {
    if (layer.name != "fc1") continue;
    for (const plan::PassTime& time : layer.times) units.push_back(time.units);
  }
  EXPECT_EQ(units, (std::vector<std::int64_t>{500, 500, 375, 375}));
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
  EXPECT_EQ(points.at(cost.layers.front().name), (Points{{2, 0}, {4, 0}}));
  // A rank's samples and others on one, and a rank's on each of 2 and of 4; and those of all of a
  // group.
  EXPECT_EQ(points.at(cost.layers[cost.head].name),
            (Points{{2, 500}, {4, 500}, {2, 250}, {4, 250}, {2, 125}, {8, 125}}));
  EXPECT_EQ(points.at(cost.layers.back().name),
            (Points{{2, 10}, {4, 10}, {2, 5}, {4, 5}, {2, 3}, {8, 3}}));
  EXPECT_TRUE(measured.loss.empty()) << "there is no task";
  EXPECT_GT(measured.process_bytes, 1e6);
  EXPECT_LT(measured.process_bytes, 2.0 * static_cast<double>(peak_memory()));
  EXPECT_EQ(measured.network.bandwidth_bytes_per_s > 0, test_world().size() > 1);
  // All ranks plan alike.
  EXPECT_EQ(test_world().communicator().broadcast_text(to_toml(measured), 0), to_toml(measured));
  if (test_world().size() == 1) return;
  EXPECT_GT(measured.network.exchange_bandwidth_bytes_per_s, 0);
  EXPECT_GT(measured.network.latency_s, 0);
  EXPECT_GE(measured.network.processor_s_per_byte, 0);
  const PlacementPlan plan = plan_placement(problem, measured);
  // sync, model parallelism; a, b, bc 2, c on 1 x 4; a, b, c on 2 x 2.
  EXPECT_EQ(plan.forecasts.size(), 10u);
  for (const plan::StepForecast& forecast : plan.forecasts) EXPECT_GT(forecast.step_s, 0);
  EXPECT_NE(plan.forecasts[plan.best].placement.kind, plan::Parallelism::model);
}

}  // namespace
}  // namespace convoy::train
