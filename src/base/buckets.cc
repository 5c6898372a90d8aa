#include "base/buckets.h"

#include <algorithm>
#include <map>
#include <utility>

namespace convoy {

std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<BucketItem>& items,
                                                   const std::vector<std::size_t>& order,
                                                   std::size_t first_limit, std::size_t limit) {
  struct Open {
    std::vector<std::size_t> members;
    std::size_t bytes = 0;
    std::size_t last = 0;  // position in `order`
  };
  std::map<int, Open> open;
  std::map<int, bool> had_first;
  std::vector<Open> closed;
  for (std::size_t position = 0; position < order.size(); ++position) {
    const BucketItem& item = items[order[position]];
    Open& bucket = open[item.type];
    const std::size_t enough = had_first[item.type] ? limit : first_limit;
    bucket.members.push_back(order[position]);
    bucket.bytes += item.bytes;
    bucket.last = position;
    if (bucket.bytes >= enough) {
      closed.push_back(std::exchange(bucket, {}));
      had_first[item.type] = true;
    }
  }
  for (auto& [type, bucket] : open) {
    if (!bucket.members.empty()) closed.push_back(std::move(bucket));
  }
  std::sort(closed.begin(), closed.end(),
            [](const Open& a, const Open& b) { return a.last < b.last; });
  std::vector<std::vector<std::size_t>> result;
  for (Open& bucket : closed) result.push_back(std::move(bucket.members));
  return result;
}

}  // namespace convoy
