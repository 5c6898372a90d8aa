#include "base/cpu_quota.h"

#include <cstdlib>
#include <fstream>

#include "base/cgroups.h"

namespace convoy {
namespace {

CpuLimit quota_in(const std::filesystem::path& folder, bool unified) {
  std::string quota;  // a number, or "max" or -1
  double period_us = 0;
  if (unified) {
    std::ifstream(folder / "cpu.max") >> quota >> period_us;
  } else {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(folder / "cpu.cfs_period_us") >> period_us;
  }
  const double quota_us = std::atof(quota.c_str());
  if (!(quota_us > 0 && period_us > 0)) return {};
  return {quota_us / period_us, period_us / 1e6};
}

}  // namespace

CpuLimit cgroup_cpu_limit(const std::string& root) {
  CpuLimit least;
  for (const CgroupFolder& each : cgroup_folders("cpu", root)) {
    const CpuLimit quota = quota_in(each.folder, each.unified);
    if (quota.cpus > 0 && (least.cpus == 0 || quota.cpus < least.cpus)) least = quota;
  }
  return least;
}

}  // namespace convoy
