// How long training has waited for checkpoints. Torch-free.
#pragma once

namespace convoy::train {

// One checkpoint is written at a time: training waits where the next one is due before the last one
// is there.
class CheckpointWaits {
 public:
  // Training has waited for one, after so many seconds in all. True once: when it has waited for a
  // tenth of its time, and long enough for somebody to care.
  bool add(double waited_s, double trained_s) {
    waited_s_ += waited_s;
    if (told_ || waited_s_ < kLong || waited_s_ < kShare * trained_s) return false;
    told_ = true;
    return true;
  }
  double waited_s() const { return waited_s_; }

 private:
  static constexpr double kLong = 10;
  static constexpr double kShare = 0.1;

  double waited_s_ = 0;
  bool told_ = false;
};

}  // namespace convoy::train
