// Networks divided over partitions: what crosses, counted by hand.
#include "convoy/model/partition.h"

#include <gtest/gtest.h>

#include <utility>

#include "convoy/base/error.h"
#include "model/zoo/chain.h"
#include "tests/base/scratch.h"

namespace convoy::model {
namespace {

using test::message_of;

// A layer of the same shape as the image, and one that reads it.
Blueprint two_layers(const Shape& image, layer::Kind second) {
  Blueprint net{"Two", {image}, {}};
  net.stages.push_back(
      Chain("first").add("before", layer::Convolution{.in = image[0], .out = image[0]}).done());
  net.stages.push_back(Chain("second").add("after", std::move(second)).done());
  return net;
}

PartitionPlan plan_of(const Blueprint& net, const PartitionRules& rules) {
  return plan_partition(net, net.inputs, rules);
}

const PartitionedValue& value_of(const PartitionPlan& plan, const std::string& name) {
  for (const PartitionedValue& value : plan.values) {
    if (value.name == name) return value;
  }
  throw std::out_of_range(name);
}

// Values of the layer called so that travel in forward, but for scores.
double sent_of(const PartitionPlan& plan, const std::string& name) {
  double sum = 0;
  for (const PartitionTraffic& sent : traffic_of(plan)) {
    if (plan.values[sent.value].name == name && !sent.output) sum += sent.values;
  }
  return sum;
}

double sent(const PartitionPlan& plan, const std::string& name, int from, int to) {
  for (const PartitionTraffic& one : traffic_of(plan)) {
    if (plan.values[one.value].name == name && !one.output && one.from == from && one.to == to)
      return one.values;
  }
  return 0;
}

layer::Convolution conv(std::int64_t channels, std::int64_t kernel, std::int64_t stride,
                        std::int64_t padding) {
  return {.in = channels,
          .out = 2 * channels,
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .padding = {padding, padding}};
}

// Each of 4 partitions has 4 of 16 rows, 5 columns, of 2 channels; its neighbors need one.
TEST(Partition, NeighborsNeedTheBordersOfAConvolution) {
  const PartitionPlan plan = plan_of(two_layers({2, 16, 5}, conv(2, 3, 1, 1)), {.partitions = 4});
  EXPECT_EQ(sent_of(plan, "before"), 2 * 3 * 5 * 2);
  for (int p = 0; p + 1 < 4; ++p) {
    EXPECT_EQ(sent(plan, "before", p, p + 1), 10);
    EXPECT_EQ(sent(plan, "before", p + 1, p), 10);
  }
  const PartitionedValue& value = value_of(plan, "before");
  EXPECT_EQ(value.tiles[1], (Slice{"before", {2, 16, 5}, {0, 4, 0}, {2, 4, 5}}));
  EXPECT_EQ(value.needed[1], (Slice{"before", {2, 16, 5}, {0, 3, 0}, {2, 6, 5}}));
  EXPECT_EQ(value.piece(2, 1), (Slice{"before", {2, 16, 5}, {0, 8, 0}, {2, 1, 5}}));
  EXPECT_EQ(value.piece(1, 1), value.tiles[1]);
  EXPECT_EQ(value.piece(3, 1).elements(), 0);
  EXPECT_TRUE(value.exchanged);
  EXPECT_TRUE(value.trained);
  // Of the image, a 1 x 1 convolution needs the rows that it computes. A partition has a quarter of
  // the samples.
  EXPECT_EQ(sent_of(plan, "input"), 4 * 3 * 40 / 4.0);
  EXPECT_FALSE(value_of(plan, "input").trained);
  EXPECT_EQ(plan.nodes[1].how, Division::rows);
  EXPECT_FALSE(plan.nodes[1].divides_parameters);
  EXPECT_TRUE(plan.nodes[1].tensors[3][0].whole());
}

// Output rows 2 p and 2 p + 1 need input rows 4 p - 1 to 4 p + 3: nobody needs what lies below.
TEST(Partition, StridesNeedBordersOnOneSide) {
  const PartitionPlan plan = plan_of(two_layers({2, 16, 5}, conv(2, 3, 2, 1)), {.partitions = 4});
  EXPECT_EQ(sent_of(plan, "before"), 3 * 5 * 2);
  EXPECT_EQ(sent(plan, "before", 0, 1), 10);
  EXPECT_EQ(sent(plan, "before", 1, 0), 0);
}

// Output rows 4 p to 4 p + 3 need input rows 8 p - 3 to 8 p + 9, of which 8 p to 8 p + 7 are there.
TEST(Partition, LargeKernelsWithStrides) {
  const PartitionPlan plan = plan_of(two_layers({3, 32, 4}, conv(3, 7, 2, 3)), {.partitions = 4});
  EXPECT_EQ(sent_of(plan, "before"), (3 * 3 + 3 * 2) * 4 * 3);
  EXPECT_EQ(sent(plan, "before", 1, 2), 3 * 4 * 3);
  EXPECT_EQ(sent(plan, "before", 2, 1), 2 * 4 * 3);
}

// 20 rows are 7, 7, 6; the 11 of the output 4, 4, 3, which need rows 0-12, 4-16 and 8-19.
TEST(Partition, LocalFiltersAreDividedWithTheirPositions) {
  const layer::LocallyConnected filters{.in = 2, .out = 5, .image = {20, 13}, .kernel = {10, 10}};
  const Blueprint net = two_layers({2, 20, 13}, filters);
  const PartitionPlan plan = plan_of(net, {.partitions = 3});
  EXPECT_EQ(sent_of(plan, "before"), (6 + 3 + 3 + 6) * 13 * 2);
  EXPECT_EQ(sent(plan, "before", 1, 0), 6 * 13 * 2);
  EXPECT_EQ(sent(plan, "before", 0, 2), 0);
  const PartitionedNode& node = plan.nodes[1];
  EXPECT_TRUE(node.divides_parameters);
  EXPECT_EQ(
      node.tensors[2][0],
      (Slice{"after.weight", {11, 4, 5, 2, 10, 10}, {8, 0, 0, 0, 0, 0}, {3, 4, 5, 2, 10, 10}}));
  EXPECT_EQ(node.tensors[0][1], (Slice{"after.bias", {11, 4, 5}, {0, 0, 0}, {4, 4, 5}}));
  const auto loads = loads_of(net, plan);
  EXPECT_EQ(loads[2].parameters, 2 * 2 + 2 + 3 * 4 * 5 * (2 * 100 + 1));
  EXPECT_EQ(loads[2].summed_parameters, 2 * 2 + 2);
  EXPECT_EQ(loads[2].macs, 6 * 13 * 2 * 2 + 3 * 4 * 5 * 200);
  // Its own rows of both layers, and boxes of the image and of "before" with what was fetched.
  EXPECT_EQ(loads[2].activation_values, 6 * 13 * 2 + 3 * 4 * 5 + 6 * 13 * 2 + 12 * 13 * 2);
  // The image at a third of the samples, borders, and scores of others' thirds; but for the image,
  // gradients come back.
  const double borders = 2 * 6 * 26, scores = 2 * 80 / 3.0;
  EXPECT_DOUBLE_EQ(loads[1].sent_values, (7 + 6) * 26 / 3.0 + borders + scores);
  EXPECT_DOUBLE_EQ(loads[1].collected_values, borders + scores);
  EXPECT_DOUBLE_EQ(loads[1].received_values, 2 * 7 * 26 / 3.0 + 2 * 3 * 26 + (80 + 60) / 3.0);
  EXPECT_DOUBLE_EQ(loads[1].returned_values, 2 * 3 * 26 + (80 + 60) / 3.0);
  // Copies of what it sends, and of what it receives the borders, which are more than the image.
  EXPECT_DOUBLE_EQ(loads[1].message_values, (7 + 6) * 26 / 3.0 + borders + 2 * 3 * 26);
}

TEST(Partition, PoolsNeedTheirWindows) {
  // 9 rows are 5 and 4, the 5 of the output 3 and 2: rows 0-5 and 5-8.
  PartitionPlan plan =
      plan_of(two_layers({2, 9, 7}, layer::MaxPool{{3, 3}, {2, 2}, {1, 1}}), {.partitions = 2});
  EXPECT_EQ(sent_of(plan, "before"), 7 * 2);
  EXPECT_EQ(sent(plan, "before", 1, 0), 7 * 2);
  // Windows that don't cross the border.
  plan = plan_of(two_layers({2, 8, 6}, layer::AveragePool()), {.partitions = 2});
  EXPECT_EQ(sent_of(plan, "before"), 0);
  EXPECT_FALSE(value_of(plan, "before").exchanged);
  plan = plan_of(two_layers({2, 10, 6}, layer::L2Pool{{3, 3}, {1, 1}}), {.partitions = 2});
  EXPECT_EQ(sent_of(plan, "before"), 2 * 6 * 2);
  // Two half windows away.
  plan = plan_of(two_layers({2, 8, 6}, layer::LocalContrastNorm{{3, 3}}), {.partitions = 2});
  EXPECT_EQ(sent_of(plan, "before"), 2 * 2 * 6 * 2);
  // Every other row alone.
  plan = plan_of(two_layers({2, 8, 6}, layer::Subsample{4, {2, 2}}), {.partitions = 2});
  EXPECT_EQ(sent_of(plan, "before"), 0);
}

// A row or column of 4 from either neighbor, and one from the other corner.
TEST(Partition, TilesNeedCorners) {
  const PartitionPlan plan =
      plan_of(two_layers({1, 8, 8}, conv(1, 3, 1, 1)),
              {.partitions = 4, .images = {Division::tiles}, .tiles = {2, 2}});
  EXPECT_EQ(sent_of(plan, "before"), 4 * (4 + 4 + 1));
  EXPECT_EQ(sent(plan, "before", 0, 1), 4);
  EXPECT_EQ(sent(plan, "before", 0, 2), 4);
  EXPECT_EQ(sent(plan, "before", 0, 3), 1);
  EXPECT_EQ(value_of(plan, "after").tiles[1], (Slice{"after", {2, 8, 8}, {0, 0, 4}, {2, 4, 4}}));
  // Of six, 3 rows x 2 columns unless told otherwise.
  const Blueprint net = two_layers({1, 12, 12}, conv(1, 3, 1, 1));
  const auto tile = [&](std::array<int, 2> tiles) {
    const PartitionPlan six =
        plan_of(net, {.partitions = 6, .images = {Division::tiles}, .tiles = tiles});
    return value_of(six, "before").tiles[3];
  };
  EXPECT_EQ(tile({0, 0}), (Slice{"before", {1, 12, 12}, {0, 4, 6}, {1, 4, 6}}));
  EXPECT_EQ(tile({2, 3}), (Slice{"before", {1, 12, 12}, {0, 6, 0}, {1, 6, 4}}));
}

// Two layers of a partition that need the same row from another one get it once.
TEST(Partition, WhatSeveralLayersReadIsSentOnce) {
  Blueprint net{"Branches", {{2, 8, 5}}, {}};
  net.stages.push_back(Chain("first")
                           .add("before", layer::Convolution{.in = 2, .out = 2})
                           .add("near", conv(2, 3, 1, 1))
                           .add("far", conv(2, 5, 1, 2), {"before"})
                           .add("sum", layer::Add(), {"near", "far"})
                           .done());
  const PartitionPlan plan = plan_of(net, {.partitions = 2});
  EXPECT_EQ(sent_of(plan, "before"), 2 * 2 * 5 * 2);
  EXPECT_EQ(plan.nodes[1].required[0][0].size[1], 5);
  EXPECT_EQ(plan.nodes[2].required[0][0].size[1], 6);
  EXPECT_EQ(value_of(plan, "before").needed[0].size[1], 6);
  EXPECT_FALSE(value_of(plan, "near").exchanged);
}

TEST(Partition, PartsNeedNotBeEvenNorPresent) {
  const Blueprint net = two_layers({2, 8, 5}, conv(2, 3, 1, 1));
  const PartitionPlan uneven =
      plan_of(net, {.partitions = 3, .images = {Division::rows, {2, 0, 2}}});
  EXPECT_EQ(value_of(uneven, "after").tiles[0].size[1], 4);
  EXPECT_EQ(value_of(uneven, "after").tiles[1].elements(), 0);
  // What has nothing needs nothing.
  EXPECT_EQ(value_of(uneven, "before").needed[1].elements(), 0);
  EXPECT_EQ(sent(uneven, "before", 0, 2), 10);
  EXPECT_DOUBLE_EQ(sent_of(uneven, "input"), 2 * 40 * 2 / 3.0);
  EXPECT_EQ(loads_of(net, uneven)[1].macs, 0);
  // More partitions than rows.
  const PartitionPlan many = plan_of(net, {.partitions = 10});
  EXPECT_EQ(value_of(many, "after").tiles[7].size[1], 1);
  EXPECT_EQ(value_of(many, "after").tiles[9].elements(), 0);
  EXPECT_EQ(sent_of(many, "before"), 14 * 10);
  EXPECT_EQ(many.nodes[1].tensors[9][0].elements(), many.nodes[1].tensors[0][0].elements());
}

// Maps of a convolution: all of what is before it, and a pool that needs no more.
TEST(Partition, ConvolutionsCanBeDividedByUnits) {
  Blueprint net = two_layers({2, 8, 6}, conv(2, 3, 1, 1));
  net.stages.push_back(
      Chain("third").add("norm", layer::BatchNorm{4}).add("pool", layer::MaxPool()).done());
  const PartitionPlan plan = plan_of(
      net, {.partitions = 2,
            .layers = {{"after", {Division::units, {3, 1}}}, {"pool", {Division::units, {1, 1}}}}});
  EXPECT_EQ(sent_of(plan, "before"), 2 * 4 * 6 * 2);
  EXPECT_EQ(sent_of(plan, "after"), 0);
  EXPECT_EQ(sent_of(plan, "norm"), 8 * 6);  // a map
  EXPECT_EQ(plan.nodes[1].tensors[1][0],
            (Slice{"after.weight", {4, 2, 3, 3}, {3, 0, 0, 0}, {1, 2, 3, 3}}));
  EXPECT_TRUE(plan.nodes[2].divides_parameters);
  EXPECT_EQ(plan.nodes[2].how, Division::units);
  EXPECT_EQ(plan.nodes[2].tensors[1][2], (Slice{"norm.running_mean", {4}, {3}, {1}}));
}

TEST(Partition, LayersWithoutARule) {
  const auto how = [](const Blueprint& net, const PartitionRules& rules = {.partitions = 2}) {
    return plan_of(net, rules).nodes.back().how;
  };
  EXPECT_EQ(how(two_layers({2, 6, 6}, layer::AdaptiveAveragePool{{3, 3}})), Division::units);
  EXPECT_EQ(how(two_layers({2, 6, 6}, layer::AdaptiveAveragePool{{6, 6}})), Division::rows);
  EXPECT_EQ(how(two_layers({2, 6, 6}, layer::MaxPool{{6, 6}, {1, 1}})), Division::whole);
  EXPECT_EQ(how(two_layers({2, 6, 6}, layer::Flatten())), Division::whole);
  EXPECT_EQ(how(two_layers({2, 1, 1}, layer::Flatten())), Division::whole);
  EXPECT_EQ(how(two_layers({2, 6, 6}, layer::Relu())), Division::rows);
  const PartitionRules units{.partitions = 2, .layers = {{"before", {Division::units, {0, 1}}}}};
  EXPECT_EQ(how(two_layers({2, 6, 6}, layer::Sigmoid()), units), Division::units);
  const Blueprint flat = two_layers({2, 1, 1}, layer::Flatten());
  EXPECT_EQ(how(flat, units), Division::units);
  EXPECT_EQ(value_of(plan_of(flat, units), "after").tiles[1], (Slice{"after", {2}, {0}, {2}}));
  // An input of the network is in no partition more than in another.
  Blueprint relu{"Relu", {{3, 4, 4}}, {}};
  relu.stages.push_back(Chain("all").add("relu", layer::Relu()).done());
  EXPECT_EQ(how(relu), Division::rows);
  relu.inputs = {Shape{5}};
  EXPECT_EQ(how(relu), Division::units);
  EXPECT_FALSE(value_of(plan_of(relu, {.partitions = 2}), "relu").trained);
}

// Modules of the user's are not looked into.
TEST(Partition, ModulesOfTheUsersHaveRowsIfTheyComputeParts) {
  layer::Opaque mine{.type = "Mine",
                     .tensors = {{"w", {7}, {}}},
                     .output = [](const Shape& shape) { return shape; },
                     .required = {},
                     .macs = [](const Shape& shape) { return 10 * elements_of(shape); }};
  const Blueprint whole = two_layers({2, 8, 5}, mine);
  PartitionPlan plan = plan_of(whole, {.partitions = 2});
  EXPECT_EQ(plan.nodes[1].how, Division::whole);
  EXPECT_EQ(sent_of(plan, "before"), 80);
  EXPECT_EQ(loads_of(whole, plan)[0].macs, 40 * 2 + 10 * 80);
  const auto said = message_of<UsageError>([&] {
    plan_of(whole, {.partitions = 2, .layers = {{"after", {Division::rows}}}});
  });
  EXPECT_NE(said.find("layer 'after': can't be divided by 'rows'"), std::string::npos) << said;
  mine.required = [](const Shape&, const Slice& output) { return output; };
  EXPECT_EQ(plan_of(two_layers({2, 8, 5}, mine), {.partitions = 2}).nodes[1].how, Division::whole);
  mine.in_parts = true;
  const Blueprint rows = two_layers({2, 8, 5}, mine);
  plan = plan_of(rows, {.partitions = 2});
  EXPECT_EQ(plan.nodes[1].how, Division::rows);
  EXPECT_EQ(sent_of(plan, "before"), 0);
  EXPECT_EQ(loads_of(rows, plan)[0].macs, 40 * 2 + 10 * 40);
}

TEST(Partition, ConvolutionsWithGroupsAreNotDividedByUnits) {
  const Blueprint net = two_layers({2, 8, 6}, layer::Convolution{.in = 2, .out = 4, .groups = 2});
  EXPECT_EQ(message_of<UsageError>([&] {
              plan_of(net, {.partitions = 2, .layers = {{"after", {Division::units}}}});
            }),
            "layer 'after': can't be divided by 'units': a convolution layer with an output of "
            "[4, 8, 6] can have: whole, rows, tiles");
}

TEST(Partition, WhatCanNotBeIsSaid) {
  Blueprint net = two_layers({2, 8, 6}, layer::LocalContrastNorm{{3, 3}});
  net.stages.push_back(Chain("head")
                           .add("flatten", layer::Flatten())
                           .add("fc", layer::Linear{96, 10})
                           .add("relu", layer::Relu())
                           .done());
  const auto said = [&](PartitionRules rules) {
    rules.partitions = 2;
    return message_of<UsageError>([&] { plan_of(net, rules); });
  };
  const auto of = [&](const std::string& layer, LayerDivision division) {
    return said({.layers = {{layer, std::move(division)}}});
  };
  EXPECT_EQ(of("after", {Division::units}),
            "layer 'after': can't be divided by 'units': a local_contrast_norm layer with an "
            "output of [2, 8, 6] can have: whole, rows, tiles");
  EXPECT_EQ(of("fc", {Division::rows}),
            "layer 'fc': can't be divided by 'rows': a linear layer with an output of [10] can "
            "have: whole, units");
  EXPECT_EQ(of("relu", {Division::tiles}),
            "layer 'relu': can't be divided by 'tiles': a relu layer with an output of [10] can "
            "have: whole, units, follows");
  EXPECT_NE(of("before", {Division::follows}).find("can have: whole, rows, tiles, units"),
            std::string::npos);
  EXPECT_NE(of("flatten", {Division::units}).find("can have: whole"), std::string::npos);
  EXPECT_EQ(of("befor", {Division::rows}),
            "the network 'Two' has no layer 'befor' to divide; did you mean 'before'?");
  EXPECT_EQ(of("fc", {Division::units, {1, 2, 3}}),
            "layer 'fc': there are 3 parts for 2 partitions");
  EXPECT_EQ(of("fc", {Division::units, {1, -1}}),
            "layer 'fc': parts have to be finite, and can't be negative");
  EXPECT_EQ(of("fc", {Division::units, {0, 0}}), "layer 'fc': one of the parts has to be above 0");
  EXPECT_EQ(of("before", {Division::tiles, {1, 1}}),
            "layer 'before': parts are for rows and units, not for 'tiles'");
  EXPECT_NE(said({.images = {Division::units}}).find("images can be divided by rows or tiles"),
            std::string::npos);
  EXPECT_EQ(said({.images = {Division::rows, {1}}}), "images: there are 1 parts for 2 partitions");
  EXPECT_EQ(said({.units = {1}}), "units: there are 1 parts for 2 partitions");
  EXPECT_EQ(said({.tiles = {2, 2}}),
            "tiles of 2 rows x 2 columns are not for 2 partitions: there has to be one for each");
  EXPECT_THROW(plan_of(net, {.partitions = 0}), UsageError);
  EXPECT_THROW(plan_partition(net, {{2, 8, 6}, {1}}, {}), UsageError);
  EXPECT_THROW(plan_partition(net, {{3, 8, 6}}, {}), UsageError);
  Blueprint scalar{"Scalar", {Shape{}}, {}};
  scalar.stages.push_back(Chain("all").add("relu", layer::Relu()).done());
  EXPECT_NE(message_of<UsageError>([&] { plan_of(scalar, {}); }).find("'input' has no dimension"),
            std::string::npos);
}

TEST(Partition, DivisionsHaveNames) {
  for (const Division division :
       {Division::whole, Division::rows, Division::tiles, Division::units, Division::follows})
    EXPECT_EQ(division_of(text_of(division)), division);
  EXPECT_EQ(division_of("columns"), std::nullopt);
}

}  // namespace
}  // namespace convoy::model
