#include "server/host/peer_feed.h"

#include <algorithm>
#include <utility>

namespace convoy::server::host {
namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{8} << 20;
constexpr std::size_t kBatchItems = 256;
// What arrived and is still not acknowledged by then was lost behind the transport.
constexpr auto kTrusted = std::chrono::seconds(3);

}  // namespace

std::uint64_t session_of(const replication::Body& body) {
  return std::visit(
      [](const auto& one) -> std::uint64_t {
        if constexpr (requires { one.session; }) {
          return one.session;
        } else {
          return 0;
        }
      },
      body);
}

bool PeerFeed::known(const Item& item, Clock::time_point now) const {
  if (item.last > 0) {
    // What is behind a batch that got lost may be known while that isn't.
    if (item.first < from_ || item.last > through_) return false;
    const auto arrived = std::find_if(arrivals_.begin(), arrivals_.end(),
                                      [&](const auto& one) { return one.first >= item.first; });
    return arrived == arrivals_.end() || now <= arrived->second + kTrusted;
  }
  if (!busy_ && items_.empty() && now > arrived_ + kTrusted) return false;
  const auto* piece = std::get_if<replication::SnapshotPiece>(&item.message.body);
  return piece != nullptr && item.transfer == transfer_ && piece->offset >= begin_ &&
         piece->offset + item.size <= offset_;
}

void PeerFeed::add(Item item, std::uint64_t bytes, Clock::time_point now) {
  const std::uint64_t session = session_of(item.message.body);
  if (item.message.to != to_ || session != of_) {
    clear();
    to_ = item.message.to;
    of_ = session;
  }
  if (known(item, now)) return;
  if (item.last > 0) {
    if (item.first < from_ || item.first > through_ + 1 || item.last <= through_) {
      from_ = item.first;  // from here on it is sent again, or for the first time
      arrivals_.clear();
    }
    through_ = item.last;
  }
  if (const auto* piece = std::get_if<replication::SnapshotPiece>(&item.message.body)) {
    if (item.transfer != transfer_ || piece->offset < begin_ || piece->offset > offset_) {
      begin_ = piece->offset;
    }
    transfer_ = item.transfer;
    offset_ = piece->offset + item.size;
  }
  items_.push_back({std::move(item), bytes});
}

PeerFeed::Batch PeerFeed::take() {
  Batch batch;
  batch.session = session_;
  std::uint64_t bytes = 0;
  under_way_ = 0;
  do {
    bytes += items_.front().bytes;
    under_way_ = std::max(under_way_, items_.front().item.last);
    batch.items.push_back(std::move(items_.front().item));
    items_.pop_front();
  } while (!items_.empty() && bytes + items_.front().bytes <= kBatchBytes &&
           batch.items.size() < kBatchItems);
  busy_ = true;
  return batch;
}

void PeerFeed::ended(std::uint64_t session, bool arrived, Clock::time_point now) {
  if (session != session_) return;
  busy_ = false;
  arrived_ = now;
  if (arrived) {
    const replication::Index last = std::min(under_way_, through_);
    if (last > 0 && (arrivals_.empty() || arrivals_.back().first < last)) {
      arrivals_.emplace_back(last, now);
    }
    while (arrivals_.size() > 1 && now > arrivals_[1].second + kTrusted) arrivals_.pop_front();
    return;
  }
  items_.clear();
  arrivals_.clear();
  from_ = through_ = begin_ = offset_ = 0;
}

void PeerFeed::gap(std::uint64_t session, replication::Index last) {
  if (session != of_ || arrivals_.empty() || arrivals_.back().first <= last) return;
  from_ = arrivals_.back().first + 1;
  arrivals_.clear();
}

void PeerFeed::clear() {
  ++session_;
  items_.clear();
  busy_ = false;
  arrivals_.clear();
  from_ = through_ = transfer_ = begin_ = offset_ = 0;
  to_ = {};
  of_ = 0;
}

}  // namespace convoy::server::host
