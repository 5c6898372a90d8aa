// What `device` of a recipe says, and which GPU that is for a rank. Torch-free.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace convoy::train {

// A device as recipes name it: "cpu", "cuda" (any GPU), or "cuda:N" (that one).
struct DeviceName {
  bool cuda = false;
  int index = -1;  // of the GPU, counted from 0 among those that the process sees; -1: any
  bool operator==(const DeviceName&) const = default;
};

// So many GPUs of a process LibTorch can count.
inline constexpr int kMostGpus = 127;

// Gives what `text` names, and nothing where it names no device.
inline std::optional<DeviceName> parse_device(std::string_view text) {
  constexpr std::string_view kNumbered = "cuda:";
  if (text == "cpu") return DeviceName{};
  if (text == "cuda") return DeviceName{true, -1};
  if (!text.starts_with(kNumbered)) return std::nullopt;
  const std::string_view number = text.substr(kNumbered.size());
  DeviceName device{true, -1};
  const char* const end = number.data() + number.size();
  const auto [parsed, error] = std::from_chars(number.data(), end, device.index);
  // A minus would be read, too.
  const bool whole = error == std::errc() && parsed == end && number.front() != '-';
  if (!whole || device.index >= kMostGpus) return std::nullopt;
  return device;
}

inline std::string device_text(const DeviceName& device) {
  if (!device.cuda) return "cpu";
  return device.index < 0 ? "cuda" : "cuda:" + std::to_string(device.index);
}

// Gives the number that the environment's CONVOY_FIRST_GPU says ("": 0): of the GPUs of a host,
// that of the first of these ranks, where other processes of the job have those before. Nothing
// where it is no such number.
inline std::optional<int> first_gpu(std::string_view text) {
  int first = 0;
  if (text.empty()) return first;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, first);
  constexpr int kMost = 1000000;
  if (error != std::errc() || parsed != end || first < 0 || first > kMost) return std::nullopt;
  return first;
}

// Gives the GPU that the local_rank-th rank of a host takes of `gpus`, of which there is one at
// least: each in turn, so that ranks share them where there are fewer. The one that the device
// names, if it names one, is for all ranks.
inline int gpu_of(const DeviceName& device, int local_rank, int gpus) {
  return device.index >= 0 ? device.index : local_rank % gpus;
}

// Gives how many of the ranks of a host take the GPU that its local_rank-th rank takes.
inline int ranks_on_gpu(const DeviceName& device, int local_rank, int local_size, int gpus) {
  if (device.index >= 0) return std::max(local_size, 1);
  return std::max(1, (local_size - local_rank % gpus + gpus - 1) / gpus);
}

}  // namespace convoy::train
