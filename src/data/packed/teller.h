// Tells how far work has come, ten times a second.
#pragma once

#include <chrono>
#include <utility>

#include "convoy/data/packed.h"

namespace convoy::data {

class Teller {
 public:
  Teller(Tell tell, double total) : tell_(std::move(tell)), total_(total) {}

  void at(double done) {
    if (!tell_) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < std::chrono::milliseconds(100)) return;
    told_ = now;
    tell_(done, total_);
  }
  void finish() const {
    if (tell_) tell_(total_, total_);
  }

 private:
  Tell tell_;
  double total_;
  std::chrono::steady_clock::time_point told_;
};

}  // namespace convoy::data
