// Parts of layers with which partitions cost the same.
#include "convoy/model/balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "convoy/model/alexnet.h"
#include "convoy/model/local_image.h"
#include "convoy/model/resnet.h"
#include "convoy/model/speech_dnn.h"
#include "tests/model/check_partition.h"
#include "tests/model/made_up_network.h"

namespace convoy::model {
namespace {

using Counts = std::vector<std::int64_t>;
using Speeds = std::vector<double>;

struct Balanced {
  PartitionPlan even, plan;
  LayerParts parts;
};

Balanced balanced(const Blueprint& net, const PartitionRules& rules, CountedCost what,
                  const Speeds& speeds) {
  Balanced b{.even = plan_partition(net, net.inputs, rules), .plan = {}, .parts = {}};
  b.parts = balanced_parts(b.even, net, counted_costs(net, b.even, what), speeds);
  EXPECT_TRUE(fits(b.parts, b.even, net));
  b.plan = plan_partition(net, net.inputs, with_parts(rules, b.parts, b.even, net));
  check_plan(net, b.plan);
  return b;
}

double longest(const std::vector<double>& loads, const Speeds& speeds) {
  double most = 0;
  for (std::size_t p = 0; p < loads.size(); ++p) most = std::max(most, loads[p] / speeds[p]);
  return most;
}

std::vector<double> loads(const Blueprint& net, const PartitionPlan& plan, CountedCost what) {
  std::vector<double> all;
  for (const PartitionLoad& load : loads_of(net, plan))
    all.push_back(what == CountedCost::macs ? load.macs : static_cast<double>(load.parameters));
  return all;
}

// One that costs as much per row in each layer: what is left to choose is where borders lie.
Blueprint two_convolutions(std::int64_t rows) {
  const layer::Convolution same{.in = 2, .out = 2, .kernel = {3, 3}, .padding = {1, 1}};
  const Node one{"one", same, {"x"}, nullptr}, relu{"relu", layer::Relu{}, {"one"}, nullptr},
      two{"two", same, {"relu"}, nullptr};
  return {"Two", {{2, rows, 4}}, {{"image", {"x"}, {one, relu, two}, {"two"}}}};
}

TEST(Balance, PartsGoBySpeeds) {
  const Balanced b =
      balanced(two_convolutions(10), {.partitions = 3}, CountedCost::macs, {1, 1, 0.5});
  EXPECT_EQ(b.parts, (LayerParts{{"one", {4, 4, 2}}, {"two", {4, 4, 2}}}));
}

TEST(Balance, BordersOfLayersWithAsManyRowsAreTheSame) {
  const Balanced b =
      balanced(two_convolutions(7), {.partitions = 4}, CountedCost::macs, {1, 1.2, 0.9, 1});
  EXPECT_EQ(b.parts.at("one"), b.parts.at("two"));
  EXPECT_EQ(b.plan.values[1].tiles[2].size[1], b.parts.at("one")[2]);
}

// What all compute is done, too: the slow one gets less of the rest.
TEST(Balance, EvensOutWhatOthersLeave) {
  const Blueprint net = two_convolutions(12);
  const PartitionRules whole{.partitions = 2, .layers = {{"two", {Division::whole}}}};
  // One unit for each row of a layer: 12 + 12 x = 2 (12 + 12 (1 - x)).
  EXPECT_EQ(balanced(net, whole, CountedCost::macs, {1, 0.75}).parts,
            (LayerParts{{"one", {9, 3}}}));
  EXPECT_EQ(balanced(net, whole, CountedCost::macs, {1, 0.4}).parts,
            (LayerParts{{"one", {12, 0}}}));
  const PartitionRules given{.partitions = 2, .layers = {{"two", {Division::rows, {3, 1}}}}};
  EXPECT_EQ(balanced(net, given, CountedCost::macs, {1, 1}).parts, (LayerParts{{"one", {3, 9}}}));
}

// A pool goes with the convolutions around it where these are what is divided; by parameters, which
// all have, rows are divided by speeds.
TEST(Balance, LayersThatCostNothing) {
  const Blueprint net = alexnet();
  const PartitionRules rules{.partitions = 2, .layers = {{"features.0", {Division::whole}}}};
  const Balanced macs = balanced(net, rules, CountedCost::macs, {1, 0.5});
  const Counts &pool = macs.parts.at("features.2"), &next = macs.parts.at("features.3");
  EXPECT_EQ(pool, next);  // of 27 rows
  EXPECT_LT(next[1], 9);
  const Balanced parameters = balanced(net, rules, CountedCost::parameters, {1, 0.5});
  EXPECT_EQ(parameters.parts.at("features.3"), (Counts{18, 9}));
}

TEST(Balance, NetworksOfThePaperAreEven) {
  const Blueprint local = local_image(
      {.image = {3, 64, 64}, .classes = 10, .filter = 7, .stages = {{8, 1, 5, 3}, {8, 1, 5, 2}}});
  for (const Speeds& speeds : {Speeds{1, 1, 1}, Speeds{1, 0.7, 0.3}}) {
    for (const Blueprint& net : {local, speech_dnn(), resnet({.depth = ResNetDepth::k18})}) {
      const Balanced b = balanced(net, {.partitions = 3}, CountedCost::macs, speeds);
      const std::vector<double> all = loads(net, b.plan, CountedCost::macs);
      const double mean = std::accumulate(all.begin(), all.end(), 0.0) /
                          std::accumulate(speeds.begin(), speeds.end(), 0.0);
      EXPECT_LT(longest(all, speeds), 1.03 * mean) << net.name;
    }
  }
}

TEST(Balance, IsNeverWorseThanEvenParts) {
  std::size_t better = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const MadeUp made(seed);
    Speeds speeds;
    for (int p = 0; p < made.rules.partitions; ++p)
      speeds.push_back(seed % 3 == 0 ? 1 : 0.2 + 0.1 * ((seed + 3 * static_cast<unsigned>(p)) % 8));
    for (const CountedCost what : {CountedCost::parameters, CountedCost::macs}) {
      const Balanced b = balanced(made.net, made.rules, what, speeds);
      const std::vector<double> before = loads(made.net, b.even, what),
                                after = loads(made.net, b.plan, what);
      EXPECT_LE(longest(after, speeds), longest(before, speeds) * (1 + 1e-9));
      better += longest(after, speeds) < longest(before, speeds) * 0.99 ? 1 : 0;
      const std::vector<double> counted = sums_of(counted_costs(made.net, b.even, what));
      for (std::size_t p = 0; p < counted.size(); ++p)
        EXPECT_NEAR(counted[p], before[p], 1e-9 * before[p]);
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(better, 100u);
}

TEST(Balance, TimesTellSpeeds) {
  const Blueprint net = two_convolutions(12);
  const PartitionPlan even = plan_partition(net, net.inputs, {.partitions = 2});
  // Six rows each, of which the second one needs three times as long.
  const std::vector<std::vector<double>> seconds{{1, 3}, {0.1, 0.3}, {2, 6}};
  const TimedCosts timed = timed_costs(even, seconds);
  EXPECT_NEAR(timed.speeds[0], 1, 1e-12);
  EXPECT_NEAR(timed.speeds[1], 1 / 3.0, 1e-12);
  EXPECT_EQ(balanced_parts(even, net, timed.costs, timed.speeds).at("two"), (Counts{9, 3}));
  // A layer that is not to be divided tells nothing of speeds, and counts.
  const PartitionPlan whole =
      plan_partition(net, net.inputs, {.partitions = 2, .layers = {{"two", {Division::whole}}}});
  const TimedCosts with_whole = timed_costs(whole, {{2, 2}, {0, 0}, {5, 9}});
  EXPECT_EQ(with_whole.speeds, (Speeds{1, 1}));
  EXPECT_EQ(balanced_parts(whole, net, with_whole.costs, with_whole.speeds).at("one"),
            (Counts{12, 0}));
  // Who had nothing is as fast as others are.
  const PartitionPlan four = plan_partition(net, net.inputs, {.partitions = 13});
  std::vector<std::vector<double>> rows(3, std::vector<double>(13, 1));
  for (std::vector<double>& layer : rows) layer.back() = 0;
  EXPECT_EQ(timed_costs(four, rows).speeds, Speeds(13, 1.0));
}

TEST(Balance, WhatGainsTooLittleStaysEven) {
  const Blueprint net = two_convolutions(100);
  const PartitionPlan even = plan_partition(net, net.inputs, {.partitions = 2});
  const PartitionCosts costs = counted_costs(net, even, CountedCost::macs);
  const Speeds speeds{1, 0.96};
  EXPECT_EQ(balanced_parts(even, net, costs, speeds).at("one"), (Counts{51, 49}));
  EXPECT_EQ(balanced_parts(even, net, costs, speeds, 0.03).at("one"), (Counts{50, 50}));
  EXPECT_EQ(balanced_parts(even, net, costs, {1, 0.5}, 0.03).at("one"), (Counts{67, 33}));
}

TEST(Balance, PartsFitOnePlan) {
  const Blueprint net = two_convolutions(10);
  const PartitionPlan two = plan_partition(net, net.inputs, {.partitions = 2});
  EXPECT_EQ(parts_of(two, net), (LayerParts{{"one", {5, 5}}, {"two", {5, 5}}}));
  EXPECT_TRUE(fits({{"one", {9, 1}}, {"two", {0, 10}}}, two, net));
  EXPECT_FALSE(fits({{"one", {9, 1}}}, two, net));
  EXPECT_FALSE(fits({{"one", {9, 1}}, {"two", {9, 2}}}, two, net));
  EXPECT_FALSE(fits({{"one", {9, 1}}, {"two", {-1, 11}}}, two, net));
  EXPECT_FALSE(fits({{"one", {9, 1}}, {"other", {9, 1}}}, two, net));
  EXPECT_FALSE(fits({{"one", {3, 3, 4}}, {"two", {3, 3, 4}}}, two, net));
  EXPECT_FALSE(fits({}, two, net));
}

}  // namespace
}  // namespace convoy::model
