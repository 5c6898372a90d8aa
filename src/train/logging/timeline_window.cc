#include "train/logging/timeline_window.h"

#include <algorithm>

namespace convoy::train {
namespace {

constexpr std::int64_t kSteps = 10;

}  // namespace

void TimelineWindow::begin(const Moment& now) {
  // The first updates are slower: memory is new, and the order of gradients is not known.
  from_ = std::min(now.step + kSteps, std::max(now.step, now.steps - kSteps));
  updated(now, false);
}

void TimelineWindow::updated(const Moment& now, bool ends) {
  if (timeline_ && (ends || now.step == from_ + kSteps)) {
    write_timelines(world_, *timeline_, path_);
    timeline_.reset();
  }
  if (!path_.empty() && now.step == from_) timeline_.emplace();
}

}  // namespace convoy::train
