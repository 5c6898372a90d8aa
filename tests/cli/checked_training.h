// What came of one training of `convoy plan check`.
#pragma once

#include <cstdint>

#include "cli/plan/checks_file.h"

namespace convoy::cli {

inline CheckedTraining checked_training(bool reached, std::int64_t updates, double seconds) {
  CheckedTraining one{.workers = 1, .batch = 16, .learning_rate = 0.1, .seed = 1001};
  one.reached = reached, one.updates = updates, one.seconds = seconds, one.update_s = 0.5;
  return one;
}

}  // namespace convoy::cli
