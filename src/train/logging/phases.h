// Where the time of updates goes, phase by phase.
#pragma once

#include <array>
#include <cstddef>

namespace convoy::train {

inline constexpr std::size_t kPhases = 5;

// Waiting for others is one of them; the rest is a rank's own time.
enum Phase : std::size_t { kDataWait, kForward, kBackward, kCommunication, kUpdate };

// As people read them, and as keys in metrics.jsonl.
inline constexpr std::array<const char*, kPhases> kPhaseNames{"data wait", "forward", "backward",
                                                              "exposed communication", "update"};
inline constexpr std::array<const char*, kPhases> kPhaseKeys{"data_s", "forward_s", "backward_s",
                                                             "exposed_communication_s", "update_s"};

using PhaseSeconds = std::array<double, kPhases>;

inline double sum(const PhaseSeconds& seconds) {
  double all = 0;
  for (const double phase : seconds) all += phase;
  return all;
}

// Without waiting for others.
inline double own(const PhaseSeconds& seconds) { return sum(seconds) - seconds[kCommunication]; }

}  // namespace convoy::train
