// One training step, measured: by N ranks together and by N independent copies at the same time;
// and inference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/step_recipe.h"
#include "convoy/comm/world.h"

namespace convoy::cli {

inline constexpr int kTimelineSteps = 5;

struct StepSettings {
  StepWords words;
  int repetitions = 5;
  double seconds_per_phase = 3;
  bool inference = false;  // is measured as well
  // File to write a timeline of kTimelineSteps further steps to, after those that are measured.
  std::string timeline;
};

// These are the bytes of one step, of the rank that has most of them.
struct ExchangedBytes {
  std::string kind;
  double sent = 0, received = 0;
};

// Over ranks.
struct Spread {
  double least = 0, mean = 0, most = 0;
};

// The network's outputs for a batch as large as that of a step, without gradients.
struct InferenceResult {
  int batches_per_phase = 0;
  std::vector<double> seconds;  // of a batch on the slowest rank, one per repetition
  double communication_s = 0;   // under way, hidden or not: the mean over ranks
  std::vector<ExchangedBytes> exchanged;
  Spread sent_bytes;
};

// Medians over repetitions; seconds are per step, on the slowest rank unless it says otherwise.
struct StepResult {
  int ranks = 1;
  int threads = 1;
  int steps_per_phase = 0;
  std::vector<double> together;     // images/s of all ranks, one per repetition
  std::vector<double> independent;  // the sum over copies; with sync alone
  double step_s = 0;
  double processor_s = 0;  // that all threads of a rank have computed
  double forward_s = 0;
  double backward_s = 0;       // without the exposed communication
  Spread compute_s;            // forward, backward and update
  Spread waiting_s;            // exposed communication
  double communication_s = 0;  // under way, hidden or not: the mean over ranks
  double hidden = 1;           // part of that, of all ranks together
  double update_s = 0;
  double copy_s = 0;  // of backward: gradients into buckets
  std::size_t buckets = 0;
  std::size_t bytes = 0;
  std::size_t in_place_bytes = 0;  // of `bytes`: not copied
  std::vector<ExchangedBytes> exchanged;
  Spread sent_bytes;  // of all kinds together
  double group_sum_bytes = 0;
  Spread parameters;
  Spread memory;  // the most that a rank has had while it made steps, as the kernel counts; or 0
  Spread device_memory;       // the same of a GPU's, as LibTorch counts; or 0
  InferenceResult inference;  // if it was asked for
};

// Collective. A rank's threads are as train::set_threads has left them. With sync every rank
// alternates between the two, in turns, in the same process. The registry has the made-up images.
StepResult measure_step(const comm::World& world, const StepSettings& settings,
                        const train::Registry& registry);

}  // namespace convoy::cli
