#include "train/strategies/devices/options.h"

#include <cmath>

#include "train/strategies/key_checker.h"

namespace convoy::train {
namespace {

constexpr const char* kBaselineTable = "baseline";
constexpr const char* kOptimizedTable = "optimized";
constexpr std::int64_t kMostDevices = 256;

bool is_gpu_number(double number) {
  return number >= 0 && number < 1024 && number == std::floor(number);
}

}  // namespace

std::vector<Option> device_keys() {
  return {{"devices", std::int64_t{1}, "that a rank drives: groups of its threads, or GPUs"},
          {"table", std::string(kOptimizedTable),
           "how a batch passes through them: optimized, or baseline (everything by the first one)"},
          {"gpus", std::vector<double>(), "which GPU each of them is; empty: one after the other"}};
}

DeviceRecipe devices_of(const Recipe& recipe) {
  DeviceRecipe found;
  const Options& keys = recipe.strategy_options;
  if (!keys.has("devices") || !keys.has("table") || !keys.has("gpus")) return found;
  found.devices = keys.integer("devices");
  found.baseline = keys.text("table") == kBaselineTable;
  for (const double gpu : keys.numbers("gpus"))
    found.gpus.push_back(static_cast<std::int64_t>(gpu));
  return found;
}

int first_gpu_of_rank(const Recipe& recipe, int local_rank) {
  const DeviceRecipe own = devices_of(recipe);
  return own.gpus.empty() ? local_rank * static_cast<int>(own.devices)
                          : static_cast<int>(own.gpus.front());
}

void check_device_keys(const Recipe& recipe, std::vector<std::string>& problems) {
  const Options& keys = recipe.strategy_options;
  KeyChecker c(recipe.strategy, problems);
  const std::int64_t devices = keys.integer("devices");
  const std::string& table = keys.text("table");
  c.within("devices", devices, 1, kMostDevices);
  c.one_of("table", table, {kOptimizedTable, kBaselineTable});
  c.expect(devices > 1 || table != kBaselineTable,
           c.key("table") + " is baseline, which is for several devices; " + c.key("devices") +
               " is " + std::to_string(devices));
  const std::int64_t batch = recipe.training.batch;
  c.expect(batch <= 0 || devices <= batch,
           c.key("devices") + " is " + std::to_string(devices) +
               ", more than the samples of a batch (training.batch is " + std::to_string(batch) +
               "): some would have none");
  const std::vector<double>& gpus = keys.numbers("gpus");
  if (gpus.empty()) return;
  c.expect(devices > 1, c.key("gpus") + " is for several devices; " + c.key("devices") + " is 1");
  c.expect(recipe.device.starts_with("cuda"),
           c.key("gpus") + " is for device = \"cuda\"; device is " + recipe.device);
  c.expect(static_cast<std::int64_t>(gpus.size()) == devices,
           c.key("gpus") + " names " + std::to_string(gpus.size()) + " GPUs for " +
               std::to_string(devices) + " devices; it has to name one for each");
  for (const double gpu : gpus) {
    if (is_gpu_number(gpu)) continue;
    c.expect(false, c.key("gpus") + " has to be numbers of GPUs, from 0 on");
    break;
  }
}

}  // namespace convoy::train
