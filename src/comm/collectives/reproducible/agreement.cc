#include "comm/collectives/reproducible/agreement.h"

#include <algorithm>

namespace convoy::comm {

std::string difference_of_reproducible(const std::vector<bool>& by_rank,
                                       const std::string& source) {
  const auto other = std::find(by_rank.begin(), by_rank.end(), !by_rank.at(0));
  if (other == by_rank.end()) return "";
  const char* const off_on[] = {"off", "on"};
  return "ranks differ about reproducible reductions (" + source + "): they are " +
         off_on[by_rank[0] ? 1 : 0] + " on rank 0 and " + off_on[*other ? 1 : 0] + " on rank " +
         std::to_string(other - by_rank.begin());
}

}  // namespace convoy::comm
