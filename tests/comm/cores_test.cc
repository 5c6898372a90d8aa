#include "comm/world/cores.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "convoy/base/system.h"

namespace convoy::comm {
namespace {

using Texts = std::vector<std::string>;

TEST(Cores, AsText) {
  EXPECT_EQ(format_cores({0}), "0");
  EXPECT_EQ(format_cores({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(Cores, AreSharedByThoseThatMayRunOnThem) {
  // Not bound: evenly, rounded down, at least one.
  EXPECT_EQ(share_of_cores(0, {"a"}, {"0-7"}), 8);
  EXPECT_EQ(share_of_cores(1, Texts(3, "a"), Texts(3, "0-7")), 2);
  EXPECT_EQ(share_of_cores(2, Texts(3, "a"), Texts(3, "0-1")), 1);
  EXPECT_EQ(share_of_cores(2, Texts(3, "a"), Texts(3, "0-2")), 1);
  EXPECT_EQ(share_of_cores(2, Texts(7, "a"), Texts(7, "0-6,8-14")), 2);
  // Bound: each has its own, however many others there are.
  EXPECT_EQ(share_of_cores(1, {"a", "a"}, {"0-3", "4-6"}), 3);
  // Bound to sockets: of one socket.
  EXPECT_EQ(share_of_cores(2, Texts(4, "a"), {"0-3", "4-7", "0-3", "4-7"}), 2);
  // Bound in part.
  EXPECT_EQ(share_of_cores(0, {"a", "a"}, {"0-3", "2-3"}), 3);
  EXPECT_EQ(share_of_cores(1, {"a", "a"}, {"0-3", "2-3"}), 1);
  // Other hosts have cores of their own.
  EXPECT_EQ(share_of_cores(1, {"a", "b", "a"}, Texts(3, "0-3")), 4);
  EXPECT_EQ(share_of_cores(2, {"a", "b", "a"}, Texts(3, "0-3")), 2);
}

TEST(Cores, AreCrowdedWhereARankHasLessThanOne) {
  EXPECT_FALSE(is_crowded(1, Texts(3, "a"), Texts(3, "0-2")));
  EXPECT_TRUE(is_crowded(1, Texts(3, "a"), Texts(3, "0-1")));
  // Each has one to itself, and may run on no other.
  EXPECT_FALSE(is_crowded(1, {"a", "a"}, {"0", "1"}));
  EXPECT_TRUE(is_crowded(1, {"a", "a"}, {"1", "1"}));
  // Only those that share one.
  EXPECT_TRUE(is_crowded(0, Texts(3, "a"), {"0", "0", "1-7"}));
  EXPECT_FALSE(is_crowded(2, Texts(3, "a"), {"0", "0", "1-7"}));
  EXPECT_FALSE(is_crowded(0, {"a", "b"}, {"0", "0"}));
}

class Crowded : public testing::Test {
 protected:
  void SetUp() override { forget(); }
  void TearDown() override { forget(); }
  static void forget() {
    for (const char* name : {kYield, "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"})
      unsetenv(name);
  }
  static std::string after(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
    yield_when_crowded();
    return environment(kYield, "unset");
  }
  static constexpr const char* kYield = "OMPI_MCA_mpi_yield_when_idle";
  const int cores_ = static_cast<int>(usable_cores().size());
};

TEST_F(Crowded, OneRankMoreThanCoresYields) {
  EXPECT_EQ(after("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(cores_)), "unset");
  EXPECT_EQ(after("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(cores_ + 1)), "1");
}

TEST_F(Crowded, UnderSlurmTheFullestHostCounts) {
  EXPECT_EQ(after("SLURM_STEP_TASKS_PER_NODE", std::to_string(cores_) + "(x9999),1"), "unset");
  EXPECT_EQ(after("SLURM_STEP_TASKS_PER_NODE", "1(x2)," + std::to_string(cores_ + 1) + "(x3)"),
            "1");
}

TEST_F(Crowded, WhatTheUserHasSetStays) {
  setenv(kYield, "0", 1);
  EXPECT_EQ(after("OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(cores_ + 1)), "0");
}

}  // namespace
}  // namespace convoy::comm
