#include "comm/shared_memory/small_reduction.h"

#include <array>
#include <cstring>
#include <span>
#include <vector>

namespace convoy::comm {

SmallReduction::SmallReduction(Node& node, const Call& call, std::uint64_t id, Buffer data,
                               ReduceOp op, int divisor, Reduce reduce)
    : collective_(node, call, id), data_(data), op_(op), divisor_(divisor), reduce_(reduce) {}

bool SmallReduction::begin() {
  if (begun_) return true;
  if (!collective_.claim({.payload = data_.bytes()})) return false;
  if (data_.count > 0) std::memcpy(collective_.own_payload().data(), data_.data, data_.bytes());
  collective_.publish();
  begun_ = true;
  return true;
}

bool SmallReduction::advance() {
  if (done_ || !begin() || !collective_.complete()) return false;
  if (data_.count > 0) {
    // Without an allocation, for the usual numbers of ranks.
    const std::size_t members = collective_.node().size();
    std::array<const void*, 32> few;
    std::vector<const void*> many(members <= few.size() ? 0 : members);
    const std::span<const void*> sources =
        many.empty() ? std::span(few).first(members) : std::span(many);
    for (std::size_t i = 0; i < members; ++i) sources[i] = collective_.payload(i).data();
    reduce_(op_, data_.type, data_.data, sources, data_.count, divisor_);
  }
  collective_.leave();
  done_ = true;
  return true;
}

void SmallReduction::missing(std::vector<int>& ranks) const {
  if (!done_) collective_.absent(ranks);
}

}  // namespace convoy::comm
