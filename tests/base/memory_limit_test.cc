#include "base/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/base/scratch.h"

namespace convoy {
namespace {

constexpr std::uint64_t kAll = 1000000;

// Folders and files that stand for the kernel's.
class MemoryLimit : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = scratch_.path(path);
    std::filesystem::create_directories(file.parent_path());
    test::spill(file, text + "\n");
  }
  std::uint64_t left() const { return cut_to_cgroups(kAll, scratch_.path()); }

  test::Scratch scratch_;
};

TEST_F(MemoryLimit, NoneWithoutGroups) {
  EXPECT_EQ(left(), kAll);
  write("sys/fs/cgroup/memory.max", "max");
  write("sys/fs/cgroup/memory.current", "5000");
  EXPECT_EQ(left(), kAll);
}

TEST_F(MemoryLimit, Version2OfTheGroupAndThoseAroundIt) {
  write("proc/self/mountinfo",
        "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw");
  write("proc/self/cgroup", "0::/job_7/step_0/user/task_0");
  const std::string job = "sys/fs/cgroup/job_7/";
  write(job + "step_0/user/task_0/memory.max", "max");
  write(job + "step_0/user/task_0/memory.current", "100");
  EXPECT_EQ(left(), kAll);
  write(job + "step_0/memory.max", "4096");
  write(job + "step_0/memory.current", "1096");
  EXPECT_EQ(left(), 3000u);
  write(job + "step_0/memory.stat", "anon 396\ninactive_file 500\nactive_file 200");
  EXPECT_EQ(left(), 3700u);
  write(job + "memory.max", "2000");
  write(job + "memory.current", "1500");
  EXPECT_EQ(left(), 500u);
  write(job + "memory.current", "2500");
  EXPECT_EQ(left(), 0u);
}

TEST_F(MemoryLimit, Version1OfTheGroupAndThoseAroundIt) {
  write("proc/self/mountinfo", "36 24 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  write("proc/self/cgroup", "5:cpuset:/other\n4:memory:/slurm/job_7/step_0/task_0\n0::/");
  const std::string job = "sys/fs/cgroup/memory/slurm/job_7/";
  write(job + "step_0/task_0/memory.limit_in_bytes", "9223372036854771712");
  write(job + "step_0/task_0/memory.usage_in_bytes", "100");
  EXPECT_EQ(left(), kAll);
  write(job + "memory.limit_in_bytes", "5000");
  write(job + "memory.usage_in_bytes", "1000");
  write(job + "memory.stat", "inactive_file 7\ntotal_inactive_file 50\ntotal_active_file 50");
  EXPECT_EQ(left(), 4100u);
}

// Of what lies around a container there is only this number to see.
TEST_F(MemoryLimit, Version1TellsOfGroupsOutside) {
  write("proc/self/mountinfo",
        "36 24 0:31 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory");
  write("proc/self/cgroup", "4:memory:/docker/ab");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000");
  write("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 6000");
  EXPECT_EQ(left(), 5000u);
}

}  // namespace
}  // namespace convoy
