// What a container, a service or a job may use of the memory of the host it runs on.
#pragma once

#include <cstdint>
#include <string>

namespace convoy {

// `available` bytes, cut to what is left of the limits of this process's cgroup and of those around
// it, as far as they can be seen. Files that the kernel caches count as free. `root` is put before
// every path, for tests.
std::uint64_t cut_to_cgroups(std::uint64_t available, const std::string& root = "");

// The number after `name` in a file of lines "name number ...", and of a file that has no more than
// it; false where there is none.
bool number_in(const std::string& path, const std::string& name, std::uint64_t& number);
bool number_of(const std::string& path, std::uint64_t& number);

}  // namespace convoy
