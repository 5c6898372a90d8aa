// Where the trainings of a plan run.
#pragma once

#include <string>
#include <vector>

#include "cli/launch/hosts.h"

namespace convoy::cli {

// This is where one training runs, and no other meanwhile.
struct Place {
  std::vector<int> cores = {};  // of this machine that it is bound to; empty: any
  std::string gpu = {};  // the only one that it sees, as CUDA_VISIBLE_DEVICES names it; empty: any
  int workers = 1;
  std::vector<HostSlots> hosts = {};  // where they are; empty: here

  // The most of the workers that are on one host.
  int host_workers() const;
};

// For one worker each: `threads` cores each, all of them where there are fewer; or each of `gpus`
// with an even part of the cores (one at least).
std::vector<Place> places_of(const std::vector<int>& cores, const std::vector<std::string>& gpus,
                             int threads = 1);

// The names of `count` GPUs where `visible` is the value of CUDA_VISIBLE_DEVICES.
std::vector<std::string> gpu_names(int count, const std::string& visible);

}  // namespace convoy::cli
