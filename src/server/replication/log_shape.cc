#include "server/replication/log_shape.h"

#include <algorithm>

namespace convoy::server::replication {

std::optional<Epoch> LogShape::epoch_of(Index index) const {
  if (index == base_.index) return base_.epoch;
  if (index < base_.index || index > last()) return std::nullopt;
  return items_[index - first()].epoch;
}

void LogShape::truncate_after(Index index) {
  while (last() > index && !items_.empty()) items_.pop_back();
}

void LogShape::cut_before(Index index) {
  while (first() < index && !items_.empty()) {
    base_ = {items_.front().epoch, first()};
    items_.pop_front();
  }
}

std::vector<EpochRun> LogShape::runs() const {
  std::vector<EpochRun> runs = {{base_.index, base_.epoch}};
  Index index = first();
  for (const Item& item : items_) {
    if (item.epoch != runs.back().epoch) runs.push_back({index, item.epoch});
    ++index;
  }
  return runs;
}

std::optional<Index> last_common(const LogShape& log, std::span<const EpochRun> runs, Index last) {
  // From the other log's last run down to its first: within one run, epochs don't change.
  Index end = last;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    for (Index index = std::min(end, log.last()); index >= run->begin; --index) {
      const std::optional<Epoch> epoch = log.epoch_of(index);
      if (!epoch) return std::nullopt;  // before the base: nothing further down either
      if (*epoch == run->epoch) return index;
      if (index == 0) break;
    }
    if (run->begin == 0) break;
    end = run->begin - 1;
  }
  return std::nullopt;
}

}  // namespace convoy::server::replication
