// How long a checkpoint holds training up, written while training goes on and by training itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/comm/world.h"

namespace convoy::cli {

struct CheckpointSettings {
  std::uint64_t bytes = 230'000'000;  // of the model; the optimizer has `slots` times as many
  int slots = 1;
  std::string folder;  // where checkpoints are written; made, and removed
  int repetitions = 5;
  double step_s = 0.05;  // how long the work between two calls of the writer takes, about
};

// One checkpoint. Seconds are those of the rank for which they are most.
struct CheckpointCost {
  double begin_s = 0;    // the call that begins it
  double poll_s = 0;     // all calls after that, until it is there
  double slowed_s = 0;   // by how much the steps meanwhile took longer than they do alone
  double written_s = 0;  // from its beginning to its being there
  int steps = 0;         // meanwhile
  double held_s() const { return begin_s + poll_s; }
};

struct CheckpointResult {
  int ranks = 1;
  int threads = 1;
  std::uint64_t file_bytes = 0;                           // of all ranks
  double step_s = 0;                                      // alone; median
  std::vector<CheckpointCost> asynchronous, synchronous;  // one per repetition
  // By how much one lets the largest rank's memory grow, as the kernel counts its peak.
  std::uint64_t asynchronous_growth = 0, synchronous_growth = 0;
};

// Collective; the result is the same on every rank. Both ways are the library's own
// CheckpointWriter, in turns. All ranks hold the same model, as in data-parallel training, and each
// writes its share. Throws Failure when it can't be written.
CheckpointResult measure_checkpoint(const comm::World& world, const CheckpointSettings& settings);

}  // namespace convoy::cli
