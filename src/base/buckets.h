// Which gradients are reduced together.
#pragma once

#include <cstddef>
#include <vector>

namespace convoy {

struct BucketItem {
  std::size_t bytes = 0;
  int type = 0;  // items of different types never share a bucket
};

// Cuts the items, taken in the given order, into buckets: the first of each type holds up to
// `first_limit` bytes, the others up to `limit`; an item over the limit has a bucket to itself.
// Buckets are in the order in which their last item comes, which is the order in which they fill.
std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<BucketItem>& items,
                                                   const std::vector<std::size_t>& order,
                                                   std::size_t first_limit, std::size_t limit);

}  // namespace convoy
