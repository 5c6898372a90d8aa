// Which ranks of a group are on which host: a pure function of their host names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace convoy::comm {

class NodeMap {
 public:
  NodeMap() = default;
  // The host of each rank. Nodes are numbered in the order of their first ranks.
  explicit NodeMap(const std::vector<std::string>& hosts);

  int nodes() const { return static_cast<int>(members_.size()); }
  int node_of(int rank) const { return node_[static_cast<std::size_t>(rank)]; }
  // The ranks of a node, ascending.
  const std::vector<int>& members(int node) const {
    return members_[static_cast<std::size_t>(node)];
  }
  // A rank's position among the ranks of its node.
  int index_of(int rank) const;
  // Whether every node has as many ranks.
  bool even() const;
  // One rank of each node: those with this index. The nodes must be even.
  std::vector<int> layer(int index) const;

 private:
  std::vector<int> node_;
  std::vector<std::vector<int>> members_;
};

}  // namespace convoy::comm
