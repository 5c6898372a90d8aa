#include "convoy/data/portions.h"

#include <algorithm>

namespace convoy::data {

void Portions::add(const EpochPart& portion) {
  const std::lock_guard lock(mutex_);
  portions_.push_back(portion);
}

std::optional<EpochPart> Portions::next(std::size_t batch) {
  const std::lock_guard lock(mutex_);
  if (portions_.empty()) return std::nullopt;
  EpochPart& first = portions_.front();
  EpochPart part = first;
  part.positions.end = part.positions.begin + std::min(batch, first.positions.size());
  first.positions.begin = part.positions.end;
  if (first.positions.empty()) portions_.pop_front();
  return part;
}

void Portions::clear() {
  const std::lock_guard lock(mutex_);
  portions_.clear();
}

}  // namespace convoy::data
