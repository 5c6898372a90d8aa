#include "train/compute/gpu.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "train/compute/device.h"

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11
#include <c10/core/CachingDeviceAllocator.h>
#define CONVOY_TORCH_TELLS_OF_MEMORY
#endif

namespace convoy::train {
namespace {

constexpr const char* kOnCpu = "; or set device = \"cpu\"";

// The folder of the library that this process has of LibTorch's for CPUs.
std::string libtorch_folder() {
  Dl_info info{};
  const auto address = reinterpret_cast<void*>(static_cast<void (*)(int)>(&at::set_num_threads));
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return std::filesystem::path(info.dli_fname).parent_path().lexically_normal().string();
}

// Whether LibTorch's library for GPUs is there: what it registers, and which asks for no GPU yet.
bool gpu_library_is_loaded() { return c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA); }

std::string find_gpu_problem() {
  const std::string folder = libtorch_folder();
  // Also where something registers what it does: a plugin's library may have brought a part of it.
  const std::string problem = load_gpu_library(folder);
  if (!problem.empty()) return problem;
  if (torch::cuda::is_available()) return "";
  if (!at::globalContext().hasCUDART()) {
    return "LibTorch was asked for GPUs before its library for them was loaded, and has none for "
           "that: start the program with LD_PRELOAD=" +
           folder + "/libtorch_cuda.so";
  }
  return "LibTorch finds no GPU on " + host_name() +
         ": there has to be NVIDIA's driver (nvidia-smi lists the GPUs that it sees), new enough "
         "for this LibTorch, and CUDA_VISIBLE_DEVICES has to leave some";
}

bool wants_reproducible_sums(const Recipe& recipe) {
  const Options& keys = recipe.strategy_options;
  return keys.has("reproducible") && keys.flag("reproducible");
}

std::string line_of_torch(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string load_gpu_library(const std::string& folder) {
  const std::string path = folder + "/libtorch_cuda.so";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return "the LibTorch in " + folder +
           " is without CUDA: build with one that has it (tools/setup.sh --cuda fetches one; see "
           "\"GPUs\" in docs/install.md)";
  }
  // What it is linked with finds the symbols of the rest, as if the program were linked with it.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* const why = dlerror();
    return "LibTorch's library for GPUs can't be loaded (" +
           std::string(why == nullptr ? path : why) +
           "): it needs the libraries of CUDA that it was built with, as tools/setup.sh --cuda "
           "fetches them";
  }
  if (gpu_library_is_loaded()) return "";
  return path + " is no library for GPUs of this LibTorch";
}

const std::string& gpu_problem() {
  static const std::string problem = find_gpu_problem();
  return problem;
}

int gpus() { return gpu_problem().empty() ? static_cast<int>(torch::cuda::device_count()) : 0; }

torch::Device open_device(const std::string& name, int local_rank) {
  const std::optional<DeviceName> device = parse_device(name);
  if (!device) {
    throw UsageError("device is \"" + name +
                     "\"; it can be cpu, cuda, or cuda:N with the number of a GPU");
  }
  if (!device->cuda) return torch::kCPU;
  const std::string but = "device is \"" + name + "\", but ";
  if (!gpu_problem().empty()) throw UsageError(but + gpu_problem() + kOnCpu);
  const int there = gpus();
  if (device->index >= there) {
    throw UsageError(
        but + host_name() + " has " +
        (there == 1 ? "one GPU alone, \"cuda:0\""
                    : "the GPUs \"cuda:0\" to \"cuda:" + std::to_string(there - 1) + "\" alone") +
        "; \"cuda\" gives each rank of a host one of them in turn");
  }
  const std::string text = environment("CONVOY_FIRST_GPU");
  const std::optional<int> first = first_gpu(text);
  if (!first) {
    throw UsageError("CONVOY_FIRST_GPU is '" + text +
                     "'; it has to be the number of a GPU, counted from 0");
  }
  const torch::Device gpu(
      torch::kCUDA, static_cast<c10::DeviceIndex>(gpu_of(*device, *first + local_rank, there)));
  c10::impl::VirtualGuardImpl(gpu.type()).setDevice(gpu);
  return gpu;
}

void set_gpu_arithmetic(const Recipe& recipe) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuBLAS(recipe.tf32);
  context.setAllowTF32CuDNN(recipe.tf32);
  const bool same = wants_reproducible_sums(recipe);
  context.setDeterministicCuDNN(same);
  context.setBenchmarkCuDNN(!same);
  // What has no such algorithm is computed all the same, and LibTorch warns of it.
  context.setDeterministicAlgorithms(same, /*warn_only=*/true);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 3
  context.setDeterministicFillUninitializedMemory(false);
#endif
  // cuBLAS reads it when it is first used.
  if (same) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

std::optional<DeviceMemory> device_memory(const torch::Device& device) {
  if (!device.is_cuda()) return std::nullopt;
#ifdef CONVOY_TORCH_TELLS_OF_MEMORY
  try {
    c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
    const auto [free, total] = allocator->getMemoryInfo(device.index());
    DeviceMemory memory{free, total};
    if (allocator->initialized()) {
      const auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
      const auto taken = allocator->getDeviceStats(device.index()).reserved_bytes[all];
      memory.taken = static_cast<std::uint64_t>(taken.current);
      memory.peak = static_cast<std::uint64_t>(taken.peak);
    }
    return memory;
  } catch (const c10::Error&) {  // of an allocator that keeps no account
  }
#endif
  return std::nullopt;
}

void forget_device_peak(const torch::Device& device) {
  if (!device.is_cuda()) return;
#ifdef CONVOY_TORCH_TELLS_OF_MEMORY
  try {
    c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(device.type());
    if (allocator->initialized()) allocator->resetPeakStats(device.index());
  } catch (const c10::Error&) {  // of an allocator that keeps no account
  }
#endif
}

std::string out_of_memory_text(const torch::Device& device, const std::string& who,
                               const c10::OutOfMemoryError& error) {
  std::string text = who + ": " + device.str() + " has no memory left for this";
  if (const auto memory = device_memory(device)) {
    text += " (of its " + format_bytes(memory->total) + ", " + format_bytes(memory->taken) +
            " are this process's and " + format_bytes(memory->free) + " free)";
  }
  return text +
         ": a smaller training.batch or evaluation.batch, a larger training.accumulate, more GPUs "
         "or precision = \"bfloat16\" needs less. LibTorch says: " +
         line_of_torch(error);
}

void throw_out_of_memory(const comm::World& world, const Recipe& recipe,
                         const c10::OutOfMemoryError& error, std::optional<int> gpu) {
  const torch::Device device = open_device(recipe.device, gpu.value_or(world.local_rank()));
  if (device.is_cpu()) throw;
  const std::string who =
      "rank " + std::to_string(world.rank()) + " on " + world.host(world.rank());
  throw Failure(out_of_memory_text(device, who, error));
}

}  // namespace convoy::train
