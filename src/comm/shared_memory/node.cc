#include "comm/shared_memory/node.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::comm {

Node::Node(std::vector<int> members, SharedParts board, std::size_t index, bool crowded)
    : members_(std::move(members)),
      one_process_(board.one_process),
      crowded_(crowded),
      board_(std::move(board), index) {}

std::uint32_t Node::add_region(const SharedParts& parts) {
  const std::lock_guard lock(mutex_);
  regions_.push_back({next_region_, parts});
  return next_region_++;
}

void Node::forget_region(std::uint32_t region) {
  const std::lock_guard lock(mutex_);
  std::erase_if(regions_, [&](const Region& r) { return r.number == region; });
}

Location Node::locate(const void* data, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(data);
  if (one_process_) return {Location::Kind::process, 0, reinterpret_cast<std::uintptr_t>(data), 0};
  const std::lock_guard lock(mutex_);
  for (const Region& region : regions_) {
    const std::span<std::byte> own = region.shared.parts[index()];
    if (first >= own.data() && first + bytes <= own.data() + own.size())
      return {Location::Kind::region, region.number, static_cast<std::uint64_t>(first - own.data()),
              0};
  }
  return {};
}

std::byte* Node::reach(std::size_t member, const Location& location) const {
  switch (location.kind) {
    case Location::Kind::process:
      return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(location.place));
    case Location::Kind::staging:
      return board_.part(member).data() + location.place;
    case Location::Kind::region: {
      const std::lock_guard lock(mutex_);
      for (const Region& region : regions_) {
        if (region.number == location.region)
          return region.shared.parts[member].data() + location.place;
      }
      break;
    }
    case Location::Kind::none:
      break;
  }
  throw Failure("rank " + std::to_string(members_[member]) +
                " uses registered memory that this rank has released");
}

}  // namespace convoy::comm
