#include "tests/server/replication/sim_disk.h"

#include <algorithm>

namespace convoy::server::replication::sim {

Position Content::position() const {
  const Position end = log.empty() ? base : Position{log.back().epoch, log.back().index};
  return std::max(end, snapshot.at);
}

bool Content::append(const Entry& entry) {
  if (entry.index != last() + 1) return false;
  log.push_back(entry);
  return true;
}

void Content::truncate_after(Index index) {
  while (!log.empty() && last() > index) log.pop_back();
}

void Content::cut_before(Index index) {
  while (!log.empty() && log.front().index < index) {
    base = {log.front().epoch, log.front().index};
    log.pop_front();
  }
}

bool Content::holds(Index index, Epoch epoch) const {
  // A snapshot is of commands that were committed, and so is what the log was cut behind.
  if (index <= std::max(base.index, snapshot.at.index)) return true;
  return index <= last() && log[index - base.index - 1].epoch == epoch;
}

bool SimDisk::append(const Entry& entry) {
  if (full || !written_.append(entry)) return false;
  unsynced_.emplace_back(entry);
  return true;
}

void SimDisk::truncate_after(Index index) {
  written_.truncate_after(index);
  unsynced_.emplace_back(index);
}

void SimDisk::cut_before(Index index) {
  written_.cut_before(index);
  durable_.cut_before(std::min(index, durable_.snapshot.at.index + 1));
}

void SimDisk::sync() {
  for (const Step& step : unsynced_) {
    if (const auto* entry = std::get_if<Entry>(&step)) {
      durable_.append(*entry);
    } else {
      durable_.truncate_after(std::get<Index>(step));
    }
  }
  unsynced_.clear();
}

void SimDisk::save(SavedState state) {
  durable_.snapshot = state;
  written_.snapshot = std::move(state);
}

void SimDisk::install(SavedState state) {
  unsynced_.clear();
  for (Content* content : {&written_, &durable_}) {
    content->snapshot = state;
    content->base = state.at;
    content->log.clear();
  }
}

void SimDisk::cut_power(RandomStream& random) {
  unsynced_.resize(random.below(unsynced_.size() + 1));
  sync();
  written_ = durable_;
}

void SimDisk::recover() {
  const Position at = written_.snapshot.at;
  if (at.index == 0 || at == written_.base) return;
  const Index first = written_.base.index + 1;
  const bool leads_on = at.index >= first && at.index <= written_.last() &&
                        written_.log[at.index - first].epoch == at.epoch;
  if (!leads_on) install(written_.snapshot);
}

}  // namespace convoy::server::replication::sim
