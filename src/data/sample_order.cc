#include "convoy/data/sample_order.h"

#include <algorithm>

namespace convoy::data {

StaticOrder::StaticOrder(std::size_t count, std::uint64_t seed, bool shuffle, int rank, int world)
    : count_(count), seed_(seed), shuffle_(shuffle), rank_(rank), world_(world) {
  even_share({0, 0}, rank, world);  // throws for a rank that can't be
}

// The first rank's share is the largest; every rank has the same memory.
std::size_t StaticOrder::largest_share(std::size_t batch) const {
  return even_share({0, std::min(batch, count_)}, 0, world_).size();
}

void StaticOrder::append_share(std::uint64_t epoch, Range batch,
                               std::vector<std::size_t>& samples) {
  if (!order_ || order_epoch_ != epoch) {
    order_.emplace(count_, seed_, epoch, shuffle_);
    order_epoch_ = epoch;
  }
  const Range share = even_share(batch, rank_, world_);
  for (std::size_t p = share.begin; p < share.end; ++p) samples.push_back((*order_)[p]);
}

}  // namespace convoy::data
