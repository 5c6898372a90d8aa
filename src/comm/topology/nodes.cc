#include "comm/topology/nodes.h"

#include <algorithm>
#include <map>

namespace convoy::comm {

NodeMap::NodeMap(const std::vector<std::string>& hosts) {
  std::map<std::string, int> numbers;
  for (const std::string& host : hosts) {
    const auto [found, is_new] = numbers.try_emplace(host, nodes());
    if (is_new) members_.emplace_back();
    members_[static_cast<std::size_t>(found->second)].push_back(static_cast<int>(node_.size()));
    node_.push_back(found->second);
  }
}

int NodeMap::index_of(int rank) const {
  const std::vector<int>& list = members(node_of(rank));
  return static_cast<int>(std::find(list.begin(), list.end(), rank) - list.begin());
}

bool NodeMap::even() const {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const auto& list) { return list.size() == members_[0].size(); });
}

std::vector<int> NodeMap::layer(int index) const {
  std::vector<int> ranks;
  for (const auto& list : members_) ranks.push_back(list[static_cast<std::size_t>(index)]);
  return ranks;
}

}  // namespace convoy::comm
