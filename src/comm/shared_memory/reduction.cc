#include "comm/shared_memory/reduction.h"

#include <algorithm>
#include <cstring>

namespace convoy::comm {
namespace {

// What is reduced before the others hear of it: a few of these fit the second-level cache, and
// whoever wants the engine's lock waits some ten microseconds for it.
constexpr std::size_t kBlock = 128 << 10;
// What is reduced before it goes to the others: it is still in the first-level cache.
constexpr std::size_t kPiece = 32 << 10;

}  // namespace

SharedReduction::SharedReduction(Node& node, const Call& call, std::uint64_t id, Buffer data,
                                 ReduceOp op, int divisor, bool everywhere, Reduce reduce,
                                 const Board::Turn* turn)
    : WindowedCollective(node, call, id, data, equal_slices(data.count, node.size()), turn),
      op_(op),
      divisor_(divisor),
      everywhere_(everywhere),
      reduce_(reduce) {}

bool SharedReduction::exchange() {
  const bool reduced = reduce_block();
  return copy_out() || reduced;
}

void SharedReduction::begin() {
  if (window_->in_place()) {
    copied_in_ = copied_out_ = length_;
    collective_.own().ready.store(length_, std::memory_order_release);
  }
  if (!everywhere_) copied_out_ = length_;
}

// Into the own staging block: what others will reduce.
bool SharedReduction::copy_in() {
  if (copied_in_ == length_) return false;
  // What has left the block again.
  std::size_t free_from = copied_out_;
  if (!everywhere_) free_from = collective_.complete() ? collective_.least_finished() : 0;
  const std::size_t limit = std::min(length_, free_from + window_->capacity());
  const std::size_t end = std::min(limit, copied_in_ + window_->step());
  if (end == copied_in_ || (end < length_ && end < copied_in_ + window_->step())) return false;
  const std::size_t size = size_of(data_.type);
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    if (s == collective_.node().index()) continue;
    const Chunk part = part_of(slices_[s], copied_in_, end);
    for (std::size_t at = part.begin, left = part.count; left > 0;) {
      std::size_t run = left;
      std::byte* to =
          element(window_->base(), window_->location(), s, slices_[s].begin, at, size, run);
      std::memcpy(to, slice(data_, slices_[s].begin + at, run).data, run * size);
      at += run;
      left -= run;
    }
  }
  copied_in_ = end;
  collective_.own().ready.store(end, std::memory_order_release);
  return true;
}

// One block of the own slice.
bool SharedReduction::reduce_block() {
  if (reduced_ == length_) return false;
  const std::size_t me = collective_.node().index();
  const std::size_t size = size_of(data_.type);
  const std::size_t available = std::min<std::uint64_t>(collective_.least_ready(), length_);
  const std::size_t end = std::min(available, reduced_ + kBlock / size);
  if (end == reduced_) return false;
  const NodeCollective::AmongOthers here(collective_);
  const Chunk part = part_of(slices_[me], reduced_, end);
  for (std::size_t at = part.begin, left = part.count; left > 0;) {
    std::size_t run = std::min(left, kPiece / size);
    // The shortest piece among all ranks' memory first, then all pointers to it.
    for (std::size_t i = 0; i < reach_.size(); ++i) {
      if (i != me)
        element(reach_[i], collective_.slot(i).location, me, slices_[me].begin, at, size, run);
    }
    void* const own = slice(data_, slices_[me].begin + at, run).data;
    sources_.clear();
    for (std::size_t i = 0; i < reach_.size(); ++i) {
      sources_.push_back(i == me ? own
                                 : element(reach_[i], collective_.slot(i).location, me,
                                           slices_[me].begin, at, size, run));
    }
    reduce_(op_, data_.type, own, sources_, run, divisor_);
    for (std::size_t i = 0; everywhere_ && i < reach_.size(); ++i) {
      if (i != me) std::memcpy(const_cast<void*>(sources_[i]), own, run * size);
    }
    at += run;
    left -= run;
  }
  reduced_ = end;
  collective_.own().finished.store(end, std::memory_order_release);
  return true;
}

// From the own staging block: what others have reduced.
bool SharedReduction::copy_out() {
  if (copied_out_ == length_) return false;
  const std::size_t available = std::min<std::uint64_t>(collective_.least_finished(), length_);
  const std::size_t end = std::min(available, copied_out_ + window_->step());
  if (end == copied_out_) return false;
  const std::size_t size = size_of(data_.type);
  for (std::size_t s = 0; s < slices_.size(); ++s) {
    if (s == collective_.node().index()) continue;
    const Chunk part = part_of(slices_[s], copied_out_, end);
    for (std::size_t at = part.begin, left = part.count; left > 0;) {
      std::size_t run = left;
      const std::byte* from =
          element(window_->base(), window_->location(), s, slices_[s].begin, at, size, run);
      std::memcpy(slice(data_, slices_[s].begin + at, run).data, from, run * size);
      at += run;
      left -= run;
    }
  }
  copied_out_ = end;
  return true;
}

bool SharedReduction::complete() const {
  return reduced_ == length_ && copied_out_ == length_ && collective_.least_finished() >= length_;
}

}  // namespace convoy::comm
