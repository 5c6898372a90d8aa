#include "base/buckets.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace convoy {
namespace {

using Plan = std::vector<std::vector<std::size_t>>;

std::vector<std::size_t> forward(std::size_t n) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

TEST(Buckets, FirstIsSmall) {
  const std::vector<BucketItem> items(6, {10, 0});
  EXPECT_EQ(plan_buckets(items, forward(6), 10, 30), (Plan{{0}, {1, 2, 3}, {4, 5}}));
}

// LeNet's gradients are of this kind: nearly all of them are there when most is yet to compute.
TEST(Buckets, LargeItemsWaitForNothingThatComesLater) {
  EXPECT_EQ(plan_buckets({{5, 0}, {100, 0}, {5, 0}, {5, 0}}, forward(4), 10, 20),
            (Plan{{0, 1}, {2, 3}}));
  EXPECT_EQ(plan_buckets({{100, 0}, {5, 0}, {100, 0}}, forward(3), 10, 20), (Plan{{0}, {1, 2}}));
}

TEST(Buckets, TypesNeverMix) {
  EXPECT_EQ(plan_buckets({{4, 0}, {4, 1}, {4, 0}, {4, 1}}, forward(4), 100, 100),
            (Plan{{0, 2}, {1, 3}}));
}

TEST(Buckets, FollowTheOrder) {
  EXPECT_EQ(plan_buckets({{4, 0}, {4, 0}, {4, 0}}, {2, 0, 1}, 8, 8), (Plan{{2, 0}, {1}}));
  EXPECT_EQ(plan_buckets({}, {}, 8, 8), Plan{});
}

TEST(Buckets, HoldEveryItemOnce) {
  std::vector<BucketItem> items;
  for (std::size_t i = 0; i < 200; ++i)
    items.push_back({i * 37 % 101 + 1, static_cast<int>(i % 3)});
  std::vector<std::size_t> order = forward(200);
  std::reverse(order.begin(), order.end());
  std::set<std::size_t> seen;
  for (const auto& bucket : plan_buckets(items, order, 50, 200)) {
    std::size_t bytes = 0;
    for (std::size_t i : bucket) {
      EXPECT_TRUE(seen.insert(i).second);
      EXPECT_EQ(items[i].type, items[bucket[0]].type);
      EXPECT_LT(bytes, 200U);  // before its last item
      bytes += items[i].bytes;
    }
  }
  EXPECT_EQ(seen.size(), 200u);
}

}  // namespace
}  // namespace convoy
