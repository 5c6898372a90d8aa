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
  EXPECT_EQ(needs.training(), 8 * 40);
  // Two rows of four of both layers, and what they read: four rows of each.
  const double kept = 2 * 8 + 2 * 16;
  // To send: the first and the last row of a, and three rows of each image of its own, a third of
  // them, to either side; to receive: four rows of other images, two thirds of them.
  const double sent = 2 * 4 + 2 * 12 / 3.0, received = 16 * 2 / 3.0;
  EXPECT_DOUBLE_EQ(needs.activations, 8 * (kept + sent + received));
}

}  // namespace
}  // namespace convoy::train
