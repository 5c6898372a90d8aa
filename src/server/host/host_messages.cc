// What a host sends.
#include <iterator>
#include <utility>

#include "convoy/base/error.h"
#include "server/host/shard_host.h"

namespace convoy::server::host {
namespace {

using replication::JoinAnswer;

constexpr std::uint64_t kFeedReadBytes = std::uint64_t{4} << 20;

// What has to arrive in the order in which it was sent; all else is a sign of life, or an answer,
// and would only wait behind large commands.
bool in_order(const replication::Body& body) {
  const auto* answer = std::get_if<JoinAnswer>(&body);
  return answer != nullptr && answer->kind != JoinAnswer::Kind::refused;
}

}  // namespace

void ShardHost::on(replication::Send& effect) {
  replication::Message& message = effect.message;
  if (!message.to) return links_.to_authority(std::move(message));
  if (in_order(message.body)) return feed({std::move(message), 0, 0, 0, 0});
  const std::uint64_t node = message.to.node;
  std::vector<replication::Message> messages;
  messages.push_back(std::move(message));
  links_.to_node(node, std::move(messages), nullptr);
}

void ShardHost::on(replication::SendEntries& effect) {
  feed({std::move(effect.message), effect.first, effect.last, 0, 0});
}

void ShardHost::on(replication::SendPiece& effect) {
  feed({std::move(effect.message), 0, 0, effect.transfer, effect.size});
}

void ShardHost::feed(PeerFeed::Item item) {
  std::uint64_t bytes = item.size;
  for (replication::Index i = item.first; item.last > 0 && i <= item.last; ++i) {
    bytes += node_->log().bytes_of(i);
  }
  feed_.add(std::move(item), bytes, time_now());
  pump();
}

// Sends the next batch: here, if all of it is in memory.
void ShardHost::pump() {
  if (!feed_.ready()) return;
  PeerFeed::Batch batch = feed_.take();
  bool here = true;
  for (PeerFeed::Item& item : batch.items) {
    here = here && item.size == 0;
    if (item.last == 0) continue;
    auto& append = std::get<replication::Append>(item.message.body);
    for (replication::Index i = item.first; i <= item.last; ++i) {
      const replication::Entry* entry = recent_.find(i);
      if (entry != nullptr) {
        append.entries.push_back(*entry);
      } else {
        here = false;
      }
    }
  }
  if (here) return deliver(std::move(batch));
  feed_lane_.add([this, batch = std::move(batch)] { pump_from_disk(batch); });
}

// Those entries that are in memory follow those that are not.
void ShardHost::pump_from_disk(PeerFeed::Batch batch) {
  try {
    for (PeerFeed::Item& item : batch.items) {
      if (item.last > 0) {
        auto& append = std::get<replication::Append>(item.message.body);
        const replication::Index behind =
            append.entries.empty() ? item.last + 1 : append.entries.front().index;
        std::vector<replication::Entry> entries;
        while (item.first + entries.size() < behind) {
          auto some = logged(item.first + entries.size(), behind - 1, kFeedReadBytes);
          std::move(some.begin(), some.end(), std::back_inserter(entries));
        }
        append.entries.insert(append.entries.begin(), entries.begin(), entries.end());
      } else if (item.size > 0) {
        auto& piece = std::get<replication::SnapshotPiece>(item.message.body);
        std::optional<SnapshotId> id;
        {
          const std::lock_guard lock(mutex_);
          const auto found = sending_.find(item.transfer);
          if (found != sending_.end()) id = found->second;
        }
        if (!id) throw Failure("this transfer has ended");
        piece.bytes = snapshots_->piece(*id, piece.offset, item.size);
        if (piece.bytes.size() != item.size) throw Failure("a snapshot is shorter than it was");
      }
    }
  } catch (const std::exception&) {
    // Truncated or cut meanwhile: the node that this was for is at another place by now.
    event([&] {
      feed_.ended(batch.session, false, time_now());
      return Effects{};
    });
    return;
  }
  event([&] {
    deliver(std::move(batch));
    return Effects{};
  });
}

void ShardHost::deliver(PeerFeed::Batch batch) {
  std::vector<replication::Message> messages;
  for (PeerFeed::Item& item : batch.items) messages.push_back(std::move(item.message));
  const std::uint64_t node = messages.front().to.node;
  links_.to_node(node, std::move(messages), [this, session = batch.session](bool arrived) {
    event([&] {
      feed_.ended(session, arrived, time_now());
      pump();
      return Effects{};
    });
  });
}

}  // namespace convoy::server::host
