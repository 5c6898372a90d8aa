// Where the ranks of a communicator are, and what those of one host share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/shared_memory/node.h"
#include "comm/topology/nodes.h"

namespace convoy::comm {

// All ranks agree on everything but the node itself.
struct Locality {
  NodeMap map;
  // The ranks on this host; null for a rank alone on its host, and where no memory is shared.
  std::shared_ptr<Node> node;
  // Why ranks on one host don't share memory although there are some; empty if they do.
  std::string problem;

  // Whether one node has all the ranks, more than one, and they share memory.
  bool one_node() const { return node != nullptr && map.nodes() == 1; }
  // Whether every node has the same number of ranks, more than one, and they share memory.
  bool even_nodes() const { return node != nullptr && map.nodes() > 1 && map.even(); }
};

// Collective over the ranks of `gather`; `hosts` are theirs. `crowded`: see Node.
std::shared_ptr<const Locality> locate(const Gather& gather, int rank,
                                       const std::vector<std::string>& hosts, bool crowded);

}  // namespace convoy::comm
