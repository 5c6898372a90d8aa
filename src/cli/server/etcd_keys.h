// What a job with strategy "downpour" or "sandblaster" leaves in etcd.
#pragma once

#include <string>
#include <vector>

namespace convoy::cli {

struct EtcdKeys {
  std::vector<std::string> members;  // addresses
  std::string prefix;
  std::string certificates;  // folder; empty: plain connections
  std::string host;          // whose certificate is shown
};

// Removes them. Returns why they are still there; empty if they aren't. A few seconds for each
// member at most.
std::string remove_keys(const EtcdKeys& keys);

}  // namespace convoy::cli
