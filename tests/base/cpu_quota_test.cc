#include "base/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/base/scratch.h"

namespace convoy {
namespace {

// Folders and files that stand for the kernel's.
class CpuQuota : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = scratch_.path(path);
    std::filesystem::create_directories(file.parent_path());
    test::spill(file, text + "\n");
  }
  double quota() const { return cgroup_cpu_quota(scratch_.path()); }
  double period() const { return cgroup_cpu_limit(scratch_.path()).period_s; }

  const std::string version2_ =
      "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw";
  const std::string version1_ =
      "36 24 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct";
  test::Scratch scratch_;
};

TEST_F(CpuQuota, NoneWithoutGroups) {
  EXPECT_EQ(quota(), 0);
  write("proc/self/mountinfo", "24 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw");
  write("proc/self/cgroup", "0::/");
  EXPECT_EQ(quota(), 0);
}

TEST_F(CpuQuota, Version2OfTheGroupAndThoseAroundIt) {
  write("proc/self/mountinfo", version2_);
  write("proc/self/cgroup", "0::/service/job");
  write("sys/fs/cgroup/service/job/cpu.max", "max 100000");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/service/cpu.max", "150000 100000");
  EXPECT_EQ(quota(), 1.5);
  write("sys/fs/cgroup/service/job/cpu.max", "20000 100000");
  EXPECT_EQ(quota(), 0.2);
  EXPECT_EQ(period(), 0.1);
  write("sys/fs/cgroup/service/job/cpu.max", "400000 100000");
  EXPECT_EQ(quota(), 1.5);
  // A container sees its own group as the top.
  write("proc/self/cgroup", "0::/");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu.max", "250000 100000");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(CpuQuota, Version1) {
  write("proc/self/mountinfo", version1_);
  write("proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/convoy-ab/h0\n0::/");
  write("sys/fs/cgroup/cpu,cpuacct/convoy-ab/h0/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu,cpuacct/convoy-ab/h0/cpu.cfs_period_us", "10000");
  EXPECT_EQ(quota(), 0);
  write("sys/fs/cgroup/cpu,cpuacct/convoy-ab/h0/cpu.cfs_quota_us", "2000");
  EXPECT_EQ(quota(), 0.2);
  EXPECT_EQ(period(), 0.01);
}

TEST_F(CpuQuota, OfAContainerWhoseGroupIsWhatIsMounted) {
  write("proc/self/mountinfo",
        "36 24 0:31 /docker/ab /my\\040groups rw - cgroup cgroup rw,cpu,cpuacct");
  write("my groups/cpu.cfs_quota_us", "300000");
  write("my groups/cpu.cfs_period_us", "100000");
  for (const char* group : {"/docker/ab", "/docker/ab/in", "/elsewhere", "/"}) {
    write("proc/self/cgroup", std::string("4:cpu,cpuacct:") + group);
    EXPECT_EQ(quota(), 3) << group;
  }
}

}  // namespace
}  // namespace convoy
