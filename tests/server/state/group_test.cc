// Gradients of portions that are summed by groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "server/state/group_trees.h"
#include "tests/server/state/batch_shards.h"

namespace convoy::server {
namespace {

using namespace test;

constexpr std::size_t kElements = 11;
constexpr EvaluationId kEvaluation{3, 1};

template <typename T>
std::vector<T> portion(std::uint32_t number) {
  return random_values<T>(kElements, number + 1);
}

// As a replica sums it.
template <typename T>
std::vector<T> sum_of(const PortionGroup& group) {
  PortionSum<T> sum;
  for (std::uint64_t i = group.first; i < group.end(); ++i) {
    sum.add(portion<T>(static_cast<std::uint32_t>(i)));
  }
  const auto all = sum.take();
  return {all.begin(), all.end()};
}

template <typename T>
GroupAnswer add(GroupTrees& trees, const PortionGroup& group, const std::vector<T>& values,
                std::uint32_t slice = 0) {
  const BatchSlice one{slice, batch_values(std::span<const T>(values))};
  return trees.add(kEvaluation, group, {&one, 1});
}

template <typename T>
GroupAnswer add(GroupTrees& trees, const PortionGroup& group) {
  return add(trees, group, sum_of<T>(group));
}

template <typename T>
void open(GroupTrees& trees, std::uint32_t portions) {
  trees.open({kEvaluation, portions}, element_of<T>(), {kElements});
}

template <typename T>
std::vector<T> root(const GroupTrees& trees) {
  const auto roots = trees.roots(kEvaluation);
  if (!roots) return {};
  const T* data = roots->front()->data<T>();
  return {data, data + roots->front()->size()};
}

// Groups of at most 2^k portions that make up all of them, in any order.
std::vector<PortionGroup> groups(std::uint32_t portions, std::uint8_t log2_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<PortionGroup> all;
  for (std::uint32_t first = 0; first < portions;) {
    PortionGroup group{first, static_cast<std::uint8_t>(random() % (log2_size + 1u))};
    while (first % (1u << group.log2_size) != 0 || group.end() > portions) --group.log2_size;
    all.push_back(group);
    first = static_cast<std::uint32_t>(group.end());
  }
  std::shuffle(all.begin(), all.end(), random);
  return all;
}

template <typename T>
void expect_the_same_bits_in_any_groups() {
  for (const std::uint32_t portions : {1u, 2u, 3u, 5u, 16u, 37u}) {
    GroupTrees one_by_one;
    open<T>(one_by_one, portions);
    for (std::uint32_t i = 0; i < portions; ++i)
      EXPECT_EQ(add<T>(one_by_one, {i, 0}), GroupAnswer::kept);
    const std::vector<T> expected = root<T>(one_by_one);
    ASSERT_EQ(expected.size(), kElements);
    for (unsigned seed = 0; seed < 20; ++seed) {
      GroupTrees trees;
      open<T>(trees, portions);
      for (const PortionGroup& group :
           groups(portions, static_cast<std::uint8_t>(seed % 5), seed)) {
        EXPECT_FALSE(trees.roots(kEvaluation));
        EXPECT_EQ(add<T>(trees, group), GroupAnswer::kept);
      }
      EXPECT_TRUE(trees.missing(kEvaluation, portions).empty());
      expect_same_bits(root<T>(trees), expected);
    }
  }
}

TEST(Groups, HaveTheSameBitsInAnyGroups) {
  expect_the_same_bits_in_any_groups<float>();
  expect_the_same_bits_in_any_groups<double>();
}

// Not only in this order: left plus right.
TEST(Groups, AreSummedByPairs) {
  GroupTrees trees;
  trees.open({kEvaluation, 3}, Element::f64, {1});
  const std::vector<double> big = {1e16}, one = {1};
  const auto give = [&](std::uint32_t first, const std::vector<double>& values) {
    const BatchSlice slice{0, batch_values(std::span(values))};
    return trees.add(kEvaluation, {first, 0}, {&slice, 1});
  };
  give(2, one);
  give(1, one);
  give(0, big);
  EXPECT_EQ(root<double>(trees), std::vector<double>{(1e16 + 1) + 1});
}

TEST(Groups, TheFirstOneIsKept) {
  GroupTrees trees;
  open<double>(trees, 8);
  EXPECT_EQ(add<double>(trees, {2, 1}), GroupAnswer::kept);
  const std::vector<double> other(kElements, 5);
  EXPECT_EQ(add(trees, {2, 1}, other), GroupAnswer::had);
  EXPECT_EQ(add(trees, {2, 0}, other), GroupAnswer::had);
  EXPECT_EQ(add(trees, {3, 0}, other), GroupAnswer::had);
  EXPECT_EQ(add(trees, {0, 2}, other), GroupAnswer::overlaps);
  EXPECT_EQ(add(trees, {0, 3}, other), GroupAnswer::overlaps);
  EXPECT_EQ(trees.missing(kEvaluation, 8), (std::vector<PortionRange>{{0, 2}, {4, 8}}));
  EXPECT_EQ(add<double>(trees, {0, 1}), GroupAnswer::kept);
  EXPECT_EQ(add(trees, {0, 2}, other), GroupAnswer::had);
  EXPECT_EQ(add<double>(trees, {4, 2}), GroupAnswer::kept);
  GroupTrees expected;
  open<double>(expected, 8);
  add<double>(expected, {0, 3});
  expect_same_bits(root<double>(trees), root<double>(expected));
  EXPECT_EQ(trees.bytes(), kElements * 8);
}

// Processes of a divided network have some slices each; one that no stage uses is zeros.
TEST(Groups, OfSeveralProcesses) {
  GroupTrees trees;
  trees.open({kEvaluation, 2}, Element::f64, {2, 0, 1});
  const std::vector<double> a = {1, 2}, b = {3};
  const std::vector<BatchSlice> left = {{0, batch_values(std::span(a))}};
  const std::vector<BatchSlice> right = {{2, batch_values(std::span(b))}};
  const std::vector<BatchSlice> zeros = {{0, {Element::f64, true, 2, {}}},
                                         {2, {Element::f64, true, 1, {}}}};
  EXPECT_EQ(trees.add(kEvaluation, {0, 0}, left), GroupAnswer::kept);
  EXPECT_EQ(trees.missing(kEvaluation, 2), (std::vector<PortionRange>{{0, 2}}));
  EXPECT_EQ(trees.add(kEvaluation, {0, 0}, right), GroupAnswer::kept);
  EXPECT_EQ(trees.missing(kEvaluation, 2), (std::vector<PortionRange>{{1, 2}}));
  EXPECT_EQ(trees.add(kEvaluation, {1, 0}, zeros), GroupAnswer::kept);
  EXPECT_EQ(trees.add(kEvaluation, {1, 0}, left), GroupAnswer::had);
  const auto roots = trees.roots(kEvaluation);
  ASSERT_TRUE(roots);
  EXPECT_EQ((*roots)[0]->data<double>()[1], 2);
  EXPECT_EQ((*roots)[1], nullptr);
  EXPECT_EQ((*roots)[2]->data<double>()[0], 3);
}

TEST(Groups, RefusesWhatIsNone) {
  GroupTrees trees;
  const std::vector<double> values(kElements);
  EXPECT_THROW(add(trees, {0, 0}, values), UsageError);  // nothing is open
  EXPECT_EQ(trees.missing(kEvaluation, 5), (std::vector<PortionRange>{{0, 5}}));
  open<double>(trees, 6);
  for (const PortionGroup& group :
       {PortionGroup{1, 1}, {6, 0}, {0, 4}, {0, 32}, {0, 200}, {4000000000u, 0}}) {
    EXPECT_THROW(add(trees, group, values), UsageError) << group.first;
  }
  EXPECT_THROW(add(trees, {0, 0}, std::vector<double>(3)), UsageError);
  EXPECT_THROW(add(trees, {0, 0}, std::vector<float>(kElements)), UsageError);
  EXPECT_THROW(add(trees, {0, 0}, values, 1), UsageError);
  EXPECT_EQ(add(trees, {0, 0}, values), GroupAnswer::kept);
  // Another evaluation forgets this one's; one that was open before doesn't come back.
  trees.open({{3, 2}, 6, 8}, Element::f64, {kElements});
  trees.open({kEvaluation, 6, 7}, Element::f64, {kElements});
  EXPECT_THROW(add(trees, {0, 0}, values), UsageError);
  EXPECT_EQ(trees.bytes(), 0u);
  trees.close(8);
  trees.open({kEvaluation, 6, 8}, Element::f64, {kElements});
  EXPECT_THROW(add(trees, {0, 0}, values), UsageError);
  trees.open({kEvaluation, 6, 9}, Element::f64, {kElements});
  EXPECT_EQ(add(trees, {0, 0}, values), GroupAnswer::kept);
}

// What a backup is given of them, node by node.
TEST(Groups, AreCopied) {
  for (const std::uint32_t portions : {5u, 13u}) {
    GroupTrees trees, copy;
    open<double>(trees, portions);
    open<double>(copy, portions);
    // All but one portion, the last one among them.
    for (std::uint32_t i = 0; i < portions; ++i) {
      if (i != 2) add<double>(trees, {i, 0});
    }
    const auto nodes = trees.nodes();
    for (const GroupTrees::Copy& node : nodes) {
      const BatchSlice slice{node.slice,
                             {Element::f64, false, node.sum->size(), node.sum->bytes()}};
      EXPECT_EQ(copy.add(kEvaluation, node.group, {&slice, 1}), GroupAnswer::kept);
    }
    EXPECT_EQ(copy.missing(kEvaluation, portions), (std::vector<PortionRange>{{2, 3}}));
    // What is being copied stays as it is.
    const std::vector<double> first(nodes[0].sum->data<double>(),
                                    nodes[0].sum->data<double>() + kElements);
    add<double>(trees, {2, 0});
    add<double>(copy, {2, 0});
    expect_same_bits(first,
                     {nodes[0].sum->data<double>(), nodes[0].sum->data<double>() + kElements});
    expect_same_bits(root<double>(copy), root<double>(trees));
  }
}

// A backup may get a group by itself before the sum that it is in.
TEST(Groups, ALargerSumTakesThePlaceOfWhatIsInIt) {
  for (const std::uint32_t portions : {4u, 5u, 7u, 16u}) {
    GroupTrees trees, copy, expected;
    for (GroupTrees* each : {&trees, &copy, &expected}) open<double>(*each, portions);
    for (std::uint32_t i = 0; i < portions; ++i) {
      if (i != 1) add<double>(trees, {i, 0});
      add<double>(expected, {i, 0});
    }
    add<double>(copy, {3, 0});
    add<double>(copy, {portions - 1, 0});
    for (const GroupTrees::Copy& node : trees.nodes()) {
      const BatchSlice slice{node.slice,
                             {Element::f64, false, node.sum->size(), node.sum->bytes()}};
      copy.keep(kEvaluation, node.group, {&slice, 1});
      copy.keep(kEvaluation, node.group, {&slice, 1});
    }
    EXPECT_EQ(copy.missing(kEvaluation, portions), (std::vector<PortionRange>{{1, 2}}));
    add<double>(copy, {1, 0});
    expect_same_bits(root<double>(copy), root<double>(expected));
    const std::vector<double> other(kElements);
    const BatchSlice late{0, batch_values(std::span<const double>(other))};
    copy.keep(kEvaluation, {2, 0}, {&late, 1});
    expect_same_bits(root<double>(copy), root<double>(expected));
    EXPECT_EQ(copy.bytes(), kElements * 8);
  }
}

TEST(PortionSums, AreOfWholeGroups) {
  PortionSum<float> sum;
  EXPECT_THROW(sum.take(), UsageError);
  const std::vector<float> one = {1, 2};
  for (int i = 0; i < 3; ++i) sum.add(one);
  EXPECT_THROW(sum.take(), UsageError);
  EXPECT_THROW(sum.add(std::vector<float>(3)), UsageError);
  sum.add(one);
  EXPECT_EQ(sum.portions(), 4u);
  EXPECT_EQ(sum.take()[1], 8);
  sum.add(one);
  EXPECT_EQ(sum.take()[1], 2);
  sum.add(one);
  sum.clear();
  EXPECT_THROW(sum.take(), UsageError);
}

TEST(PortionRanges, AreUnited) {
  EXPECT_EQ(united({{0, 2}, {5, 6}}, std::vector<PortionRange>{{1, 3}, {3, 4}, {7, 9}}),
            (std::vector<PortionRange>{{0, 4}, {5, 6}, {7, 9}}));
}

}  // namespace
}  // namespace convoy::server
