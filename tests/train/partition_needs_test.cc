// What a rank is said to need.
#include "train/strategies/partitioned/needs.h"

#include <gtest/gtest.h>

#include "tests/train/plain_networks.h"
#include "tests/train/planned_layer.h"
#include "tests/train/small_world.h"

namespace convoy::train {
namespace {

constexpr const char* kRecipe = R"(
name = "needs"
precision = "float64"
[model]
name = "mlp"
[data]
reader = "stripes"
[optimizer]
momentum = 0.9
[training]
batch = 1
epochs = 1
)";

// Values, gradients, one value of momentum; activations with copies of borders to send, and borders
// received.
TEST(PartitionNeeds, AreOfEightBytesEach) {
  Registry registry;
  testing_data::add_small_world(registry);
  const Recipe recipe = parse_recipe({kRecipe, "needs.toml", "/"}, {}, registry.vocabulary());
  using namespace model::layer;
  model::Blueprint net{"Two", {{1, 6, 4}}, {}};
  const Convolution three{.in = 1, .out = 1, .kernel = {3, 3}, .padding = {1, 1}};
  net.stages.push_back(
      {"s", {"x"}, {plain_node("a", three, {"x"}), plain_node("b", three, {"a"})}, {"b"}});
  const PlannedNetwork planned(net, {.partitions = 3});
  const PartitionNeeds needs = needs_of(recipe, planned.net, planned.plan, 1);
  EXPECT_EQ(needs.parameters, 8 * 20);
  // Gradients are added up over the partitions, in buckets into which they are copied.
  EXPECT_EQ(needs.training(), 8 * 60);
  EXPECT_EQ(needs.batch(), 0);
  const PartitionNeeds of_ten = needs_of(recipe, planned.net, planned.plan, 1, {1, 10});
  EXPECT_EQ(of_ten.batch(), 10 * needs.activations);
  EXPECT_EQ(of_ten.all(), 8 * 80 + of_ten.batch());
  // Two rows of four of both layers, and what they read: four rows of each.
  const double kept = 2 * 8 + 2 * 16;
  // To send: the first and the last row of a, and three rows of each image of its own, a third of
  // them, to either side; to receive: four rows of other images, two thirds of them.
  const double sent = 2 * 4 + 2 * 12 / 3.0, received = 16 * 2 / 3.0;
  EXPECT_DOUBLE_EQ(needs.activations, 8 * (kept + sent + received));
}

// What the recipe says of layers holds for more partitions, too: of one that is whole everybody has
// all.
TEST(PartitionNeeds, MorePartitionsAreAdvisedByTheRecipesRules) {
  Registry registry;
  testing_data::add_small_world(registry);
  using namespace model::layer;
  model::Blueprint net{"Two", {{1000}}, {}};
  const Linear square{.in = 1000, .out = 1000, .bias = false};
  net.stages.push_back(
      {"s", {"x"}, {plain_node("a", square, {"x"}), plain_node("b", square, {"a"})}, {"b"}});
  const PlannedNetwork planned(net, {.partitions = 2});
  Recipe recipe =
      parse_recipe({kRecipe, "needs.toml", "/"}, {"strategy=partitioned", "grid.partitions=2"},
                   registry.vocabulary());
  const auto enough = [&](const std::vector<PlacementRule>& rules, double memory) {
    recipe.placement.layers = rules;
    return enough_partitions(recipe, planned.net, planned.plan, {}, memory);
  };
  // Values, gradients and momentum of two layers of a million weights.
  const double all = 8.0 * 3 * 2e6;
  EXPECT_EQ(enough({}, all / 3), 4);
  EXPECT_EQ(enough({{{"a"}, "units", {3, 1}}}, all / 3), 4);
  EXPECT_EQ(enough({{{"a"}, "whole", {}}}, all / 3), 0);
  EXPECT_EQ(enough({{{"a"}, "whole", {}}}, all * 0.6), 8);
}

}  // namespace
}  // namespace convoy::train
