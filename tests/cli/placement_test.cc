#include "cli/agent/placement.h"

#include <gtest/gtest.h>

namespace convoy::cli {
namespace {

Placement of(int cores, int local_rank, int local_ranks, const std::string& threads = "",
             const std::string& environment = "") {
  PlacementInput input;
  for (int core = 0; core < cores; ++core) input.cores.push_back(10 + core);
  input.local_rank = local_rank;
  input.local_ranks = local_ranks;
  input.threads = threads;
  input.environment = environment;
  return place(input);
}

TEST(Placement, SharesCoresThatDivideEvenly) {
  EXPECT_EQ(of(8, 1, 2).threads, "4");
  EXPECT_EQ(of(8, 0, 2).cores, (std::vector<int>{10, 11, 12, 13}));
  EXPECT_EQ(of(8, 1, 2).cores, (std::vector<int>{14, 15, 16, 17}));
  EXPECT_EQ(of(2, 0, 1).cores, (std::vector<int>{10, 11}));
}

TEST(Placement, LeavesRanksUnboundOtherwise) {
  EXPECT_EQ(of(8, 0, 3).threads, "2");
  EXPECT_TRUE(of(8, 0, 3).cores.empty());
  EXPECT_EQ(of(2, 3, 8).threads, "1");
  EXPECT_TRUE(of(2, 3, 8).cores.empty());
}

TEST(Placement, RespectsTheUser) {
  EXPECT_EQ(of(8, 0, 2, "", "3").threads, "3");
  EXPECT_EQ(of(8, 0, 2, "2", "3").threads, "2");
  EXPECT_EQ(of(8, 0, 2, "", "4,2").threads, "4,2");
  // More threads than a rank's cores hold would crowd on them.
  EXPECT_TRUE(of(8, 0, 2, "5").cores.empty());
  PlacementInput input{.cores = {0, 1}, .bind = false};
  EXPECT_TRUE(place(input).cores.empty());
  input.bind = true;
  input.quota = true;
  EXPECT_TRUE(place(input).cores.empty());
}

TEST(Placement, OrdersEveryCoreOnce) {
  std::vector<int> ordered = by_topology({1, 0});
  EXPECT_EQ(ordered.size(), 2u);
  EXPECT_NE(ordered[0], ordered[1]);
}

}  // namespace
}  // namespace convoy::cli
