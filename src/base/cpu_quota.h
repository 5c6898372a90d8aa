// What a container or a service may use of the CPUs it runs on.
#pragma once

#include <string>

namespace convoy {

struct CpuLimit {
  double cpus = 0;      // per second; 0: no limit
  double period_s = 0;  // in which they are granted anew
};

// What the cgroups of this process grant, version 1 and 2: the least of the group it is in and of
// those around it, as far as they can be seen. `root` is put before every path, for tests.
CpuLimit cgroup_cpu_limit(const std::string& root = "");
// Gives the CPUs of that limit.
inline double cgroup_cpu_quota(const std::string& root = "") { return cgroup_cpu_limit(root).cpus; }

}  // namespace convoy
