// Which gradients are reduced together.
#pragma once

#include <cstddef>
#include <vector>

namespace convoy {

struct BucketItem {
  std::size_t bytes = 0;
  int type = 0;  // items of different types never share a bucket
};

// Cuts the items, taken in the given order, into buckets: the first of each type ends with the item
// that makes it `first_limit` bytes or more, each of the others with the one that makes it `limit`.
// So a large item ends its bucket, and what comes after it, which may take long to compute, doesn't
// hold it up. Buckets are in the order in which their last item comes, in which they fill.
std::vector<std::vector<std::size_t>> plan_buckets(const std::vector<BucketItem>& items,
                                                   const std::vector<std::size_t>& order,
                                                   std::size_t first_limit, std::size_t limit);

}  // namespace convoy
