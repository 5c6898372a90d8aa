#include "server/client/versions.h"

namespace convoy::server::client {

std::uint64_t Versions::begin(std::size_t slice, const void* to) {
  const std::lock_guard lock(mutex_);
  const Slice was = std::exchange(slices_[slice], {});
  return was.at == to ? was.whole : kNone;
}

std::uint64_t Versions::done(const std::vector<Fetched>& fetched) {
  const std::lock_guard lock(mutex_);
  for (const Fetched& each : fetched) {
    if (each.least == each.most) slices_[each.slice] = {each.least, each.to};
    known_[each.slice] = each.least;
  }
  ++fetches_;
  // A push may wait for long while fetches go on.
  if (kept_.empty() || *kept_.back().second != known_) {
    kept_.emplace_back(fetches_, std::make_shared<const std::vector<std::uint64_t>>(known_));
  }
  if (kept_.size() > kKept) thin_out();
  return fetches_;
}

std::uint64_t Versions::fetches() const {
  const std::lock_guard lock(mutex_);
  return fetches_;
}

Versions::Snapshot Versions::after(std::uint64_t fetches) {
  const std::lock_guard lock(mutex_);
  if (fetches > fetches_ || kept_.empty() || kept_.front().first > fetches) return nullptr;
  while (kept_.size() > 1 && kept_[1].first <= fetches) kept_.pop_front();
  return kept_.front().second;
}

// Every second one but the first and the last: a push of what was computed with one that is gone
// counts as one of a fetch before it, so it is never taken for fresher than it is.
void Versions::thin_out() {
  std::deque<std::pair<std::uint64_t, Snapshot>> rest;
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    if (i % 2 == 0 || i + 1 == kept_.size()) rest.push_back(std::move(kept_[i]));
  }
  kept_ = std::move(rest);
}

void Versions::forget() {
  const std::lock_guard lock(mutex_);
  for (Slice& slice : slices_) slice = {};
}

}  // namespace convoy::server::client
