#include "server/coordinator/ranges.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace convoy::server::coordinator {
namespace {

TEST(Ranges, AddsMergesAndFindsGaps) {
  Ranges ranges;
  std::set<std::uint64_t> model;
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    if (i % 40 == 0) {
      ranges = {};
      model.clear();
    }
    const std::uint64_t begin = random() % 60, end = random() % 60;
    ranges.add(begin, end);
    for (std::uint64_t each = begin; each < end; ++each) model.insert(each);
    EXPECT_EQ(ranges.size(), model.size());
    std::uint64_t before = 0, counted = 0;
    bool first = true;
    for (const auto& [low, high] : ranges.list()) {
      EXPECT_TRUE(first || low > before) << "touching ranges are one";
      first = false;
      before = high;
      for (std::uint64_t each = low; each < high; ++each) counted += model.count(each);
      EXPECT_LT(low, high);
    }
    EXPECT_EQ(counted, model.size());
    const std::uint64_t from = random() % 60;
    const auto [low, high] = ranges.gap(from, 60);
    std::uint64_t expected = from;
    while (expected < 60 && model.contains(expected)) ++expected;
    EXPECT_EQ(low, expected);
    while (expected < 60 && !model.contains(expected)) ++expected;
    EXPECT_EQ(high, expected);
    const std::uint64_t a = random() % 60, b = random() % 60;
    EXPECT_EQ(ranges.inside(a, b), a < b ? static_cast<std::uint64_t>(std::distance(
                                               model.lower_bound(a), model.lower_bound(b)))
                                         : 0);
  }
}

}  // namespace
}  // namespace convoy::server::coordinator
