#include "data/loader/cost_cutter.h"

#include <algorithm>
#include <cassert>

namespace convoy::data {

CostCutter::CostCutter(std::size_t samples, const Cost& cost, std::uint64_t batch,
                       std::uint64_t seed, bool shuffle)
    : costs_(samples), batch_(batch), seed_(seed), shuffle_(shuffle) {
  for (std::size_t i = 0; i < samples; ++i) costs_[i] = std::max<std::uint64_t>(cost(i), 1);
  start(0, 0);
}

void CostCutter::start(std::uint64_t epoch, std::size_t consumed) {
  if (!order_ || epoch_ != epoch) order_.emplace(costs_.size(), seed_, epoch, shuffle_);
  epoch_ = epoch;
  consumed_ = consumed;
  next_ = 0;
  ends_.clear();
  std::uint64_t filled = 0;
  for (std::size_t position = consumed; position < costs_.size(); ++position) {
    const std::uint64_t cost = cost_of(position);
    if (filled > 0 && cost > batch_ - std::min(filled, batch_)) {
      ends_.push_back(position);
      filled = 0;
    }
    filled += cost;
  }
  if (filled > 0) ends_.push_back(costs_.size());
}

Range CostCutter::next() {
  assert(next_ < ends_.size());
  const Range batch{consumed_, ends_[next_++]};
  consumed_ = batch.end;
  return batch;
}

Range CostCutter::share(Range batch, int rank, int world) const {
  // A sample is the rank's in whose part of the units its middle lies. Sums of whole numbers are
  // exact in double, so all ranks draw the same lines.
  double total = 0;
  for (std::size_t p = batch.begin; p < batch.end; ++p) total += static_cast<double>(cost_of(p));
  const double parts = world;
  Range share{batch.end, batch.end};
  double before = 0;
  for (std::size_t p = batch.begin; p < batch.end; ++p) {
    const auto cost = static_cast<double>(cost_of(p));
    const double middle = (before + cost / 2) * parts;
    if (middle >= total * rank && share.begin == batch.end) share.begin = p;
    if (middle >= total * (rank + 1)) {
      share.end = p;
      break;
    }
    before += cost;
  }
  share.begin = std::min(share.begin, share.end);
  return share;
}

}  // namespace convoy::data
