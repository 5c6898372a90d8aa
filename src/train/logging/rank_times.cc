#include "train/logging/rank_times.h"

#include <algorithm>
#include <utility>

#include "convoy/base/clock.h"

namespace convoy::train {

RankTimes::RankTimes(const comm::Communicator& all, std::int64_t every)
    : communicator_(all.with_reproducible(false)),
      every_(every),
      sent_seconds_(kPhases * static_cast<std::size_t>(all.size())) {}

std::optional<GatheredTimes> RankTimes::add(std::int64_t step, const PhaseSeconds& seconds) {
  std::optional<GatheredTimes> arrived = take();
  step_ = step;
  ++steps_;
  for (std::size_t phase = 0; phase < kPhases; ++phase) sums_[phase] += seconds[phase];
  if (steps_ >= every_) start();
  return arrived;
}

std::optional<GatheredTimes> RankTimes::finish() {
  if (sent_.steps == 0 && steps_ > 0) start();
  return take();
}

void RankTimes::start() {
  const auto begin = Clock::now();
  std::fill(sent_seconds_.begin(), sent_seconds_.end(), 0);
  const auto place = static_cast<std::ptrdiff_t>(kPhases) * communicator_.rank();
  std::copy(sums_.begin(), sums_.end(), sent_seconds_.begin() + place);
  sent_ = {.step = step_, .steps = steps_, .ranks = {}, .cost_s = 0};
  gathering_ = communicator_.start_allreduce(comm::buffer_of(sent_seconds_), comm::ReduceOp::sum);
  sums_ = {};
  steps_ = 0;
  sent_.cost_s = seconds_since(begin);
}

std::optional<GatheredTimes> RankTimes::take() {
  if (sent_.steps == 0) return std::nullopt;
  const auto begin = Clock::now();
  if (gathering_.valid()) gathering_.wait();
  GatheredTimes gathered = std::exchange(sent_, {});
  gathered.ranks.resize(sent_seconds_.size() / kPhases);
  for (std::size_t i = 0; i < sent_seconds_.size(); ++i)
    gathered.ranks[i / kPhases][i % kPhases] = sent_seconds_[i];
  gathered.cost_s += seconds_since(begin);
  return gathered;
}

}  // namespace convoy::train
