// Partitions of the networks there are.
#include <gtest/gtest.h>

#include <map>

#include "convoy/model/alexnet.h"
#include "convoy/model/local_image.h"
#include "convoy/model/resnet.h"
#include "convoy/model/speech_dnn.h"
#include "tests/model/check_partition.h"

namespace convoy::model {
namespace {

// By name, the values that travel in forward; those of scores as "scores".
std::map<std::string, double> sent_of(const PartitionPlan& plan) {
  std::map<std::string, double> all;
  for (const PartitionTraffic& sent : traffic_of(plan))
    all[sent.output ? "scores" : plan.values[sent.value].name] += sent.values;
  return all;
}

using Sent = std::map<std::string, double>;

// Hidden layers are gathered: each has a quarter of the units and needs all. The other three
// quarters of the samples come from others, and what others have of the scores of its own.
TEST(PartitionedNetworks, SpeechDnn) {
  const Blueprint net = speech_dnn();
  const PartitionPlan plan = plan_partition(net, net.inputs, {.partitions = 4});
  check_plan(net, plan);
  const double hidden = 4 * (2560 - 640);
  EXPECT_EQ(sent_of(plan), (Sent{{"input", 12 * 440 / 4.0},
                                 {"sigmoid1", hidden},
                                 {"sigmoid2", hidden},
                                 {"sigmoid3", hidden},
                                 {"sigmoid4", hidden},
                                 {"scores", 12 * 2048 / 4.0}}));
  const PartitionLoad load = loads_of(net, plan)[3];
  EXPECT_EQ(load.parameters, 441 * 640 + 3 * 2561 * 640 + 2561 * 2048);
  EXPECT_EQ(load.summed_parameters, 0);
  EXPECT_EQ(load.macs, 440 * 640 + 3 * 2560 * 640 + 2560 * 2048);
  EXPECT_EQ(load.received_values, 330 + 4 * 1920 + 3 * 512);
  EXPECT_EQ(load.returned_values, 4 * 1920 + 3 * 512);
  // Sigmoids are computed in place.
  EXPECT_EQ(load.activation_values, 440 + 4 * 640 + 4 * 2560 + 2048);
  // All get all of its units, which need no copy; the others' are under way one layer at a time.
  EXPECT_EQ(load.message_values, 1920);
}

TEST(PartitionedNetworks, ResNet18ByRows) {
  const Blueprint net = resnet({.depth = ResNetDepth::k18});
  const PartitionPlan plan = plan_partition(net, net.inputs, {.partitions = 4});
  check_plan(net, plan);
  // Rows of a layer's output, of which neighbors need one from either side (or from above alone,
  // with a stride of 2; the shortcut of 1 x 1 needs none), and 56 = 4 * 14, 28 = 4 * 7,
  // 14 = 4 + 4 + 3 + 3, 7 = 2 + 2 + 2 + 1 of them.
  Sent by_hand{{"input", (58 + 61 + 61 + 59) * 224 * 3 * 3 / 4.0},
               {"relu", 3 * 112 * 64},
               {"maxpool", 6 * 56 * 64},
               {"layer1.0.relu1", 6 * 56 * 64},
               {"layer1.0.relu", 6 * 56 * 64},
               {"layer1.1.relu1", 6 * 56 * 64},
               {"layer1.1.relu", 3 * 56 * 64},
               {"layer2.0.relu1", 6 * 28 * 128},
               {"layer2.0.relu", 6 * 28 * 128},
               {"layer2.1.relu1", 6 * 28 * 128},
               {"layer3.0.relu1", 6 * 14 * 256},
               {"layer3.0.relu", 6 * 14 * 256},
               {"layer3.1.relu1", 6 * 14 * 256},
               {"layer4.0.relu1", 6 * 7 * 512},
               {"layer4.0.relu", 6 * 7 * 512},
               {"layer4.1.relu1", 6 * 7 * 512},
               {"layer4.1.relu", 384 * 49},  // a quarter of the maps to each
               {"flatten", 4 * 384},
               {"scores", 12 * 250 / 4.0}};
  // 28 rows 7 7 7 7 to 14 as 4 4 3 3: rows 0-7, 7-15, 15-21 and 21-27 are read.
  by_hand["layer2.1.relu"] = (1 + 2 + 1 + 0) * 28 * 128;
  // 14 rows 4 4 3 3 to 7 as 2 2 2 1: rows 0-3, 3-7, 7-11 and 11-13.
  by_hand["layer3.1.relu"] = (0 + 1 + 2 + 0) * 14 * 256;
  Sent sent = sent_of(plan);
  EXPECT_EQ(sent, by_hand);
  const auto loads = loads_of(net, plan);
  EXPECT_EQ(loads[0].parameters, 11689512 - 750 * 513);
  EXPECT_EQ(loads[0].summed_parameters, 11689512 - 1000 * 513);
  // A row of 7 is half of 2.
  const auto at = [&](const std::string& name, std::size_t p) {
    for (const PartitionedValue& value : plan.values) {
      if (value.name == name) return value.tiles[p].size[1];
    }
    return std::int64_t{-1};
  };
  EXPECT_EQ(at("layer4.1.add", 0), 2);
  EXPECT_EQ(at("layer4.1.add", 3), 1);
}

TEST(PartitionedNetworks, AlexNetByRows) {
  const Blueprint net = alexnet();
  const PartitionPlan plan = plan_partition(net, net.inputs, {.partitions = 2});
  check_plan(net, plan);
  // 224 rows give 55, of which rows 0-27 need 0-116 and rows 28-54 need 110-223.
  EXPECT_EQ(sent_of(plan), (Sent{{"input", (117 + 114) * 224 * 3 / 2.0},
                                 {"features.1", 1 * 55 * 64},
                                 {"features.2", 4 * 27 * 64},
                                 {"features.4", 1 * 27 * 192},
                                 {"features.5", 2 * 13 * 192},
                                 {"features.7", 2 * 13 * 384},
                                 {"features.9", 2 * 13 * 256},
                                 {"features.11", 1 * 13 * 256},
                                 {"avgpool", 256 * 36},
                                 {"classifier.3", 4096},
                                 {"classifier.5", 4096},
                                 {"scores", 2 * 500 / 2.0}}));
  EXPECT_EQ(loads_of(net, plan)[1].parameters, 2469696 + 2048 * 9217 + 2048 * 4097 + 500 * 4097);
}

TEST(PartitionedNetworks, LocalImage) {
  const Blueprint net =
      local_image({.image = {3, 16, 16},
                   .classes = 6,
                   .filter = 3,
                   .norm = 3,
                   .stages = {{.maps = 2, .stride = 1, .pool = 2},
                              {.maps = 4, .stride = 1, .pool = 3, .pool_stride = 3}}});
  const PartitionPlan plan = plan_partition(net, net.inputs, {.partitions = 2});
  check_plan(net, plan);
  // 14 rows of filters, 13 of the pool as 7 and 6, of which the second reads rows 7-13; two rows of
  // 13 from either side; 11 rows of filters as 6 and 5, which need rows 0-7 and 6-12; 3 rows of the
  // pool as 2 and 1, which need rows 0-5 and 6-8; the normalization needs all three of both.
  EXPECT_EQ(sent_of(plan), (Sent{{"input", (9 + 9) * 16 * 3 / 2.0},
                                 {"filter1", 1 * 14 * 2},
                                 {"pool1", 4 * 13 * 2},
                                 {"norm1", 2 * 13 * 2},
                                 {"pool2", 3 * 3 * 4},
                                 {"norm2", 3 * 3 * 4},
                                 {"scores", 6 / 2.0}}));
  EXPECT_EQ(loads_of(net, plan)[0].parameters,
            7 * 14 * 2 * (27 + 1) + 6 * 11 * 4 * (18 + 1) + 3 * (36 + 1));
}

// The paper's largest one, on its 81 machines: nothing is built.
TEST(PartitionedNetworks, LargeOnesAreDividedToo) {
  const Blueprint net = local_image(local_image_preset("1.7B"));
  const PartitionPlan plan = plan_partition(
      net, net.inputs, {.partitions = 81, .images = {Division::tiles}, .tiles = {9, 9}});
  check_plan(net, plan);
  std::int64_t parameters = 0;
  for (const PartitionLoad& load : loads_of(net, plan)) parameters += load.parameters;
  EXPECT_EQ(parameters, 1706721312);
}

TEST(PartitionedNetworks, OnePartitionExchangesNothing) {
  for (const Blueprint& net : {alexnet(), resnet({.depth = ResNetDepth::k18}), speech_dnn()}) {
    const PartitionPlan plan = plan_partition(net, net.inputs, {});
    EXPECT_TRUE(traffic_of(plan).empty());
    for (const PartitionedValue& value : plan.values) {
      EXPECT_FALSE(value.exchanged);
      EXPECT_TRUE(value.tiles[0].whole());
    }
    const PartitionLoad load = loads_of(net, plan)[0];
    const Cost cost = cost_of(net, net.inputs);
    EXPECT_EQ(load.parameters, cost.parameters);
    EXPECT_EQ(load.summed_parameters, 0);
    EXPECT_EQ(load.macs, static_cast<double>(cost.macs));
    EXPECT_EQ(4 * load.activation_values, static_cast<double>(cost.activation_bytes));
    EXPECT_EQ(load.sent_values + load.returned_values + load.message_values, 0);
  }
}

}  // namespace
}  // namespace convoy::model
