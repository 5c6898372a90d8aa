#include "base/hold.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace {

using convoy::Hold;
using convoy::parse_hold;
using convoy::UsageError;

TEST(Holds, ArePointsWithCountsAndRanks) {
  const Hold plain = parse_hold("start=/tmp/a=b");
  EXPECT_EQ(plain.point, "start");
  EXPECT_EQ(plain.count, 1);
  EXPECT_EQ(plain.rank, -1);
  EXPECT_EQ(plain.file, "/tmp/a=b");
  const Hold whole = parse_hold("checkpoint.write:12@0=x");
  EXPECT_EQ(whole.point, "checkpoint.write");
  EXPECT_EQ(whole.count, 12);
  EXPECT_EQ(whole.rank, 0);
  EXPECT_EQ(whole.file, "x");
  EXPECT_FALSE(whole.every);
  EXPECT_TRUE(holds(whole, "checkpoint.write"));
  EXPECT_FALSE(holds(whole, "checkpoint.write.more"));
  const Hold all = parse_hold("batch.:3+@1=x");
  EXPECT_EQ(all.count, 3);
  EXPECT_TRUE(all.every);
  EXPECT_EQ(all.rank, 1);
  EXPECT_TRUE(holds(all, "batch.seal"));
  EXPECT_FALSE(holds(all, "batches"));
}

TEST(Holds, OfAnotherFormAreRefused) {
  for (const char* text :
       {"", "start", "=x", "start=", "start:=x", "start:0=x", "start:-1=x", "start@1=x",
        "start:1@=x", "start:1@x=y", "start:+=x", "start+=x", "Start=x", "start:99999999999=x"})
    EXPECT_THROW(parse_hold(text), UsageError) << text;
}

}  // namespace
