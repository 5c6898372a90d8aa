#include "convoy/base/parts.h"

#include <gtest/gtest.h>

#include <vector>

#include "convoy/base/even_share.h"

namespace convoy {
namespace {

TEST(EvenShares, HaveAllThingsInARow) {
  for (int count = 0; count < 20; ++count) {
    for (int shares = 1; shares < 8; ++shares) {
      int next = 0, before = count;
      for (int i = 0; i < shares; ++i) {
        const EvenShare<int> share = evenly(count, shares, i);
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.size, before);
        EXPECT_GE(share.size, count / shares);
        EXPECT_LE(share.size, (count + shares - 1) / shares);
        next = share.end();
        before = share.size;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Parts, UnitsAreDividedExactly) {
  EXPECT_EQ(units_of(10, {}, 0, 3), (Units{0, 4}));
  EXPECT_EQ(units_of(10, {}, 2, 3), (Units{7, 3}));
  EXPECT_EQ(units_of(2, {}, 2, 3), (Units{2, 0}));
  const std::vector<double> parts{2, 1, 1};
  EXPECT_EQ(units_of(4096, parts, 0, 3), (Units{0, 2048}));
  EXPECT_EQ(units_of(4096, parts, 2, 3), (Units{3072, 1024}));
  // Some get nothing; what is left by rounding is nobody's loss.
  for (const std::vector<double>& odd : std::vector<std::vector<double>>{
           {0, 1, 1e-9, 0}, {1, 1, 1, 0}, {0.1, 0.2, 0.3, 0.4}, {1e9, 1, 1, 1}}) {
    for (const std::int64_t units : {0, 1, 3, 10, 1000}) {
      std::int64_t next = 0;
      for (int i = 0; i < 4; ++i) {
        const Units own = units_of(units, odd, i, 4);
        EXPECT_EQ(own.begin, next);
        EXPECT_GE(own.size, 0);
        if (odd[static_cast<std::size_t>(i)] == 0) EXPECT_EQ(own.size, 0);
        next += own.size;
      }
      EXPECT_EQ(next, units);
    }
  }
}

}  // namespace
}  // namespace convoy
