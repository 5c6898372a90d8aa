#include "server/state/striped_vector.h"

#include <algorithm>

namespace convoy::server {

Block::Block(const Block& other) : Block(other.size_, other.arrays_) {
  const auto from = other.all();
  std::copy(from.begin(), from.end(), data_.get());
}

StripedVector::StripedVector(FrozenBlocks blocks) : stripes_(blocks.size()) {
  for (std::size_t i = 0; i < blocks.size(); ++i) stripes_[i].block = std::move(blocks[i]);
}

void StripedVector::change(std::size_t stripe, const std::function<void(Block&)>& change) {
  Stripe& s = stripes_[stripe];
  const std::lock_guard lock(s.mutex);
  if (!s.block.sole()) s.block = BlockPtr(new Block(*s.block));
  change(s.block.changeable());
}

BlockPtr StripedVector::block(std::size_t stripe) const {
  const std::lock_guard lock(stripes_[stripe].mutex);
  return stripes_[stripe].block;
}

FrozenBlocks StripedVector::freeze() const {
  FrozenBlocks blocks;
  blocks.reserve(stripes_.size());
  for (std::size_t i = 0; i < stripes_.size(); ++i) blocks.push_back(block(i));
  return blocks;
}

std::size_t stripes_of(std::uint64_t elements) {
  return (elements + StripedVector::kStripe - 1) / StripedVector::kStripe;
}

std::size_t stripe_size(std::uint64_t elements, std::size_t stripe) {
  return std::min<std::uint64_t>(StripedVector::kStripe,
                                 elements - stripe * StripedVector::kStripe);
}

}  // namespace convoy::server
