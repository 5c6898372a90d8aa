#include "comm/shared_memory/spread.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace convoy::comm {
namespace {

constexpr std::size_t kCopiedBlock = 128 << 10;  // copied at a time

// A staging block of a spread holds one slice, the owner's.
std::byte* element_of(std::byte* base, const Location& location, const Chunk& slice, std::size_t at,
                      std::size_t size, std::size_t& run) {
  return element(base, location, 0, slice.begin, at, size, run);
}

}  // namespace

SharedSpread::SharedSpread(Node& node, const Call& call, std::uint64_t id, Buffer data,
                           Slices slices, const Board::Turn* turn)
    : WindowedCollective(node, call, id, data, std::move(slices), turn) {}

void SharedSpread::begin() {
  if (window_->in_place() || own_length() == 0) {
    copied_in_ = length_;
    collective_.own().ready.store(length_, std::memory_order_release);
  }
}

bool SharedSpread::copy_in() {
  if (copied_in_ == length_) return false;
  const std::size_t free_from = collective_.complete() ? collective_.least_finished() : 0;
  const std::size_t end =
      std::min({length_, free_from + window_->capacity(), copied_in_ + window_->step()});
  if (end == copied_in_ || (end < length_ && end < copied_in_ + window_->step())) return false;
  const std::size_t size = size_of(data_.type);
  const Chunk& own = slices_[collective_.node().index()];
  const Chunk part = part_of(own, copied_in_, end);
  for (std::size_t at = part.begin, left = part.count; left > 0;) {
    std::size_t run = left;
    std::byte* to = element_of(window_->base(), window_->location(), own, at, size, run);
    std::memcpy(to, slice(data_, own.begin + at, run).data, run * size);
    at += run;
    left -= run;
  }
  copied_in_ = end;
  collective_.own().ready.store(end, std::memory_order_release);
  return true;
}

bool SharedSpread::exchange() {
  if (copied_ == length_) return false;
  const std::size_t size = size_of(data_.type);
  const std::size_t available = std::min<std::uint64_t>(collective_.least_ready(), length_);
  const std::size_t end = std::min(available, copied_ + kCopiedBlock / size);
  if (end == copied_) return false;
  const NodeCollective::AmongOthers here(collective_);
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    if (s == collective_.node().index()) continue;
    const Chunk part = part_of(slices_[s], copied_, end);
    for (std::size_t at = part.begin, left = part.count; left > 0;) {
      std::size_t run = left;
      const std::byte* from =
          element_of(reach_[s], collective_.slot(s).location, slices_[s], at, size, run);
      std::memcpy(slice(data_, slices_[s].begin + at, run).data, from, run * size);
      at += run;
      left -= run;
    }
  }
  copied_ = end;
  collective_.own().finished.store(end, std::memory_order_release);
  return true;
}

// The own slice may change only when all others have it.
bool SharedSpread::complete() const {
  return copied_ == length_ && (own_length() == 0 || collective_.least_finished() >= length_);
}

}  // namespace convoy::comm
