#include "server/coordinator/ranges.h"

#include <algorithm>
#include <iterator>

namespace convoy::server::coordinator {

void Ranges::add(std::uint64_t begin, std::uint64_t end) {
  if (begin >= end) return;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
  // All that it touches become one with it.
  while (at != ranges_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    size_ -= at->second - at->first;
    at = ranges_.erase(at);
  }
  ranges_.emplace_hint(at, begin, end);
  size_ += end - begin;
}

std::uint64_t Ranges::inside(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t count = 0;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < end; ++at) {
    const std::uint64_t low = std::max(begin, at->first), high = std::min(end, at->second);
    if (low < high) count += high - low;
  }
  return count;
}

Range Ranges::gap(std::uint64_t from, std::uint64_t end) const {
  auto at = ranges_.upper_bound(from);
  if (at != ranges_.begin() && std::prev(at)->second > from) from = std::prev(at)->second;
  if (from >= end) return {end, end};
  return {from, at == ranges_.end() ? end : std::min(end, at->first)};
}

std::vector<Range> Ranges::list() const { return {ranges_.begin(), ranges_.end()}; }

}  // namespace convoy::server::coordinator
