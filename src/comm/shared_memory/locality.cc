#include "comm/shared_memory/locality.h"

namespace convoy::comm {

std::shared_ptr<const Locality> locate(const Gather& gather, int rank,
                                       const std::vector<std::string>& hosts, bool crowded) {
  auto result = std::make_shared<Locality>();
  result->map = NodeMap(hosts);
  if (result->map.nodes() == static_cast<int>(hosts.size())) return result;  // nobody shares a host
  const std::vector<int>& members = result->map.members(result->map.node_of(rank));
  const auto index = static_cast<std::size_t>(result->map.index_of(rank));
  SharedParts parts =
      share_memory(gather, members, index, {Board::bytes_per_rank(), Board::committed_per_rank()},
                   result->problem);
  if (!parts.parts.empty())
    result->node = std::make_shared<Node>(members, std::move(parts), index, crowded);
  return result;
}

}  // namespace convoy::comm
