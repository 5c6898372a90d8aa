// One training step, measured: by N ranks together and by N independent copies at the same time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/world.h"

namespace convoy::cli {

inline constexpr int kTimelineSteps = 5;

struct StepSettings {
  std::string model = "resnet50";
  std::int64_t batch_per_rank = 8;
  int repetitions = 5;
  double seconds_per_phase = 3;
  std::string precision = "float32";  // or bfloat16: autocast with float32 weights
  bool channels_last = true;
  bool keep_blocks = true;
  bool fused_update = true;
  std::size_t bucket_bytes = 0;  // 0: the default
  bool compute_in_buckets = true;
  // File to write a timeline of kTimelineSteps further steps to, after those that are measured.
  std::string timeline;
};

// Medians over repetitions; seconds are per step, on the slowest rank.
struct StepResult {
  int ranks = 1;
  int threads = 1;
  int steps_per_phase = 0;
  std::vector<double> together;     // images/s of all ranks, one per repetition
  std::vector<double> independent;  // the sum over copies
  double forward_s = 0;
  double backward_s = 0;  // without the exposed communication
  double exposed_communication_s = 0;
  double update_s = 0;
  double copy_s = 0;  // of backward: gradients into buckets
  std::size_t buckets = 0;
  std::size_t bytes = 0;
  std::size_t in_place_bytes = 0;  // of `bytes`: not copied
};

// Collective. Every rank alternates between the two, in turns, in the same process; a rank's
// independent copy is a model of its own without any hook. The result is the same on every rank.
StepResult measure_step(const comm::World& world, const StepSettings& settings);

}  // namespace convoy::cli
