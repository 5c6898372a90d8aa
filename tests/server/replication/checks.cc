#include "tests/server/replication/checks.h"

#include <algorithm>

namespace convoy::server::replication::sim {

std::string text_of(const Member& member) {
  return std::to_string(member.node) + "." + std::to_string(member.incarnation);
}

void Checks::applied(const Member& by, bool member, const Entry& entry) {
  if (!member && lost_.contains({entry.index, entry.epoch})) return;
  const std::string where = "index " + std::to_string(entry.index) + " on " + text_of(by);
  if (entry.index > history_.size() + 1) throw Violation{"one history", "a gap before " + where};
  if (entry.index == history_.size() + 1) {
    history_.push_back(entry);
    return;
  }
  const Entry& known = history_[entry.index - 1];
  if (known.epoch != entry.epoch || !std::ranges::equal(*known.command, *entry.command)) {
    throw Violation{"one history", where + " is of epoch " + std::to_string(entry.epoch) +
                                       ", others applied one of " + std::to_string(known.epoch)};
  }
}

void Checks::committed(const Member& primary, Epoch epoch) {
  const Member& first = primaries_.try_emplace(epoch, primary).first->second;
  if (first != primary) {
    throw Violation{"one primary", text_of(first) + " and " + text_of(primary) +
                                       " commit in epoch " + std::to_string(epoch)};
  }
}

void Checks::lost_after(Index index) {
  while (history_.size() > index) {
    lost_[{history_.back().index, history_.back().epoch}] = history_.back();
    excused_.insert(update_of(*history_.back().command));
    history_.pop_back();
  }
}

std::vector<Epoch> Checks::lost_next() const {
  std::vector<Epoch> epochs;
  for (auto at = lost_.lower_bound({last() + 1, 0});
       at != lost_.end() && at->first.first == last() + 1; ++at) {
    epochs.push_back(at->first.second);
  }
  return epochs;
}

void Checks::found_next(Epoch epoch) { history_.push_back(lost_.at({last() + 1, epoch})); }

void Checks::complete(const Ledger& ledger) const {
  for (const auto& [update, times] : ledger.applied()) {
    if (times > 1) {
      throw Violation{"applied once", "client " + std::to_string(update.first) + "'s " +
                                          std::to_string(update.second) + " was applied " +
                                          std::to_string(times) + " times"};
    }
  }
  for (const Update& update : acknowledged_) {
    if (ledger.applied().contains(update) || excused_.contains(update)) continue;
    throw Violation{"nothing lost", "client " + std::to_string(update.first) + "'s " +
                                        std::to_string(update.second) +
                                        " was acknowledged and is not there"};
  }
}

}  // namespace convoy::server::replication::sim
