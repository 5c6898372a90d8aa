#include "convoy/data/sample_order.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::data {

StaticOrder::StaticOrder(std::size_t count, std::uint64_t seed, bool shuffle, int rank, int world,
                         std::size_t least_share)
    : count_(count),
      seed_(seed),
      shuffle_(shuffle),
      rank_(rank),
      world_(world),
      least_share_(least_share) {
  even_share({0, 0}, rank, world);  // throws for a rank that can't be
  if (least_share == 0) throw UsageError("the least share of a batch is 0; it must be at least 1");
}

// The first rank's share is the largest; every rank has the same memory.
std::size_t StaticOrder::largest_share(std::size_t batch) const {
  const std::size_t whole = std::min(batch, count_);
  // One rank may have to take what is not enough for two.
  const std::size_t undivided = std::min(whole, 2 * least_share_ - 1);
  return std::max(even_share({0, whole}, 0, world_, least_share_).size(), undivided);
}

void StaticOrder::go_on(std::uint64_t epoch, const std::vector<Range>& consumed) {
  order_.reset();
  begun_epoch_ = epoch;
  begun_ = consumed;
}

void StaticOrder::append_share(std::uint64_t epoch, Range batch,
                               std::vector<std::size_t>& samples) {
  if (!order_ || order_epoch_ != epoch) {
    if (epoch == begun_epoch_ && !begun_.empty()) {
      order_.emplace(count_, seed_, epoch, shuffle_, begun_);
    } else {
      order_.emplace(count_, seed_, epoch, shuffle_);
    }
    order_epoch_ = epoch;
  }
  const Range share = even_share(batch, rank_, world_, least_share_);
  for (std::size_t p = share.begin; p < share.end; ++p) samples.push_back((*order_)[p]);
}

}  // namespace convoy::data
