// What each rank has of its processor.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "convoy/comm/world.h"
#include "convoy/plan/placement.h"

namespace convoy::train {

// Where a rank computes.
struct RankCores {
  std::string machine;     // hosts may be parts of one
  std::string host;        // whose ranks have one quota together
  int threads = 1;         // of the rank
  double quota = 0;        // of its host, in cores; 0: none
  double period_s = 0;     // of that
  std::vector<int> cores;  // of the machine, that it may use
};

// What each rank has of its threads' processors, if all ranks compute at the same time: ranks of a
// host share its quota, and all of a machine the cores that they may use.
std::vector<plan::Processor> processors_of(std::span<const RankCores> ranks);

// Measures the processor of the rank that has least. Collective.
plan::Processor measure_processor(const comm::World& world);

}  // namespace convoy::train
