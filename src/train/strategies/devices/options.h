// The keys of [sync] that say which devices a rank drives, and how. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::train {

struct DeviceRecipe {
  std::int64_t devices = 1;
  bool baseline = false;           // the table that stages everything on the first device
  std::vector<std::int64_t> gpus;  // by device; empty: one after the other
};

std::vector<Option> device_keys();
// What they mean; one device where the strategy has no such keys. Of a recipe that was checked.
DeviceRecipe devices_of(const Recipe& recipe);
// Gives what Compute and open_device() take for the local_rank-th rank of a host: the number of the
// GPU that it begins with. So the network is built, and evaluated, where its first replica is.
int first_gpu_of_rank(const Recipe& recipe, int local_rank);
// Appends what is wrong with their values.
void check_device_keys(const Recipe& recipe, std::vector<std::string>& problems);

}  // namespace convoy::train
