// What a container or a service may use of the CPUs it runs on.
#pragma once

#include <string>

namespace convoy {

// CPUs per second that the cgroups of this process grant, version 1 and 2, or 0 for no limit: the
// least of the group it is in and of those around it, as far as they can be seen. `root` is put
// before every path, for tests.
double cgroup_cpu_quota(const std::string& root = "");

}  // namespace convoy
