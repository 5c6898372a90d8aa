// GPUs, by what LibTorch's libraries for CPUs declare of them. Its library for GPUs is loaded when
// the first GPU is asked for, so that who trains on CPUs doesn't wait for it.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>

#include "convoy/comm/world.h"
#include "convoy/train/recipe.h"
#include "train/strategies/devices/options.h"

namespace convoy::train {

// Says why this process can't compute on a GPU, and what to do about it, to be read after "but";
// "": it can. To be asked, or open_device(), before anything else asks LibTorch for GPUs: that
// would leave it without for good. Any thread.
const std::string& gpu_problem();

// Gives how many GPUs this process sees: 0 where there is a gpu_problem().
int gpus();

// Loads the library for GPUs of the LibTorch in this folder, and says what is wrong with it, as
// gpu_problem().
std::string load_gpu_library(const std::string& folder);

// Gives the device that a recipe names, for the local_rank-th rank of this host, and makes its GPU
// the calling thread's. CONVOY_FIRST_GPU in the environment says which one rank 0 has. Throws
// UsageError for one that is not there.
torch::Device open_device(const std::string& name, int local_rank);

// Says how this process's GPUs compute from now on: with TF32 or without, and with algorithms whose
// results are the same each time, where the recipe asks for reproducible sums, or else with those
// that are found to be fastest.
void set_gpu_arithmetic(const Recipe& recipe);

// Bytes of a device's memory.
struct DeviceMemory {
  std::uint64_t free = 0, total = 0;
  std::uint64_t taken = 0;  // by this process's tensors, and kept for others
  std::uint64_t peak = 0;   // the most that was, since forget_device_peak()
};
// Gives nothing for the CPU, and where this LibTorch doesn't tell (it does from 2.11 on).
std::optional<DeviceMemory> device_memory(const torch::Device& device);
void forget_device_peak(const torch::Device& device);

// Says that there is no memory on the device: who ("rank 1 on host a"), how much is taken, what
// would need less.
std::string out_of_memory_text(const torch::Device& device, const std::string& who,
                               const c10::OutOfMemoryError& error);

// To be called by who has caught the error: throws Failure with that text for this rank where the
// recipe's device is a GPU, and else the error again.
// `gpu`: as open_device() has it; nothing: the rank's number on its host.
[[noreturn]] void throw_out_of_memory(const comm::World& world, const Recipe& recipe,
                                      const c10::OutOfMemoryError& error,
                                      std::optional<int> gpu = std::nullopt);

// Gives what `work` does, which trains, and says so where there is no memory for it.
template <typename Work>
auto naming_out_of_memory(const comm::World& world, const Recipe& recipe, Work work) {
  try {
    return work();
  } catch (const c10::OutOfMemoryError& error) {
    throw_out_of_memory(world, recipe, error, first_gpu_of_rank(recipe, world.local_rank()));
  }
}

}  // namespace convoy::train
