// The few updates of a run that are recorded in a timeline.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/moment.h"
#include "convoy/train/timeline.h"

namespace convoy::train {

// Every rank has one, and calls the same.
class TimelineWindow {
 public:
  // `path`: the file that it goes to; empty: nothing is recorded.
  TimelineWindow(const comm::World& world, std::string path)
      : world_(world), path_(std::move(path)) {}

  // Null while nothing is recorded.
  Timeline* timeline() { return timeline_ ? &*timeline_ : nullptr; }

  // Before the first update, and after each. `ends`: there is none after it. At the last one that
  // is recorded, the file is written: collective.
  void begin(const Moment& now);
  void updated(const Moment& now, bool ends);

 private:
  const comm::World& world_;
  std::string path_;
  std::int64_t from_ = -1;  // updates done before the first that is recorded
  std::optional<Timeline> timeline_;
};

}  // namespace convoy::train
