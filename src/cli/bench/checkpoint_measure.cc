#include "cli/bench/checkpoint_measure.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/median.h"
#include "cli/bench/largest.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/train/checkpoint_writer.h"

namespace convoy::cli {
namespace {

using train::CheckpointFolder;
using train::CheckpointWriter;

// What training does on its thread: matrix products and a pass over memory, for about as long as
// asked, and at the end of a step ranks wait for each other.
class Work {
 public:
  Work(const comm::World& world, double seconds)
      : world_(world), a_(torch::randn({kSize, kSize})), b_(torch::randn({kSize, kSize})) {
    step();
    const auto start = Clock::now();
    step();
    times_ = std::max(1, static_cast<int>(seconds / largest(world, seconds_since(start))));
  }
  void step() {
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < times_; ++i) {
      torch::mm_out(c_, a_, b_);
      a_.add_(c_, 1e-9);
    }
    world_.communicator().barrier();
  }

 private:
  static constexpr std::int64_t kSize = 512;
  const comm::World& world_;
  torch::Tensor a_, b_, c_ = torch::empty({kSize, kSize});
  int times_ = 1;
};

train::State state_of(const CheckpointSettings& settings) {
  constexpr std::int64_t kRow = 1024;
  constexpr std::int64_t kLayerRows = 4096;  // 16 MiB
  train::State state;
  auto rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(settings.bytes / 4) / kRow);
  for (int layer = 0; rows > 0; ++layer, rows -= kLayerRows) {
    const std::string name = "layers." + std::to_string(layer) + ".weight";
    state.model[name] = torch::full({std::min(rows, kLayerRows), kRow}, layer, torch::kFloat);
    for (int slot = 0; slot < settings.slots; ++slot) {
      state.optimizer["slot" + std::to_string(slot) + "/" + name] =
          torch::zeros_like(state.model[name]);
    }
  }
  return state;
}

class Measurement {
 public:
  Measurement(const comm::World& world, const CheckpointSettings& settings)
      : world_(world),
        state_(state_of(settings)),
        work_(world, settings.step_s),
        folder_(settings.folder) {}

  // The seconds of a step without any checkpoint.
  double plain_step() {
    constexpr int kSteps = 5;
    std::vector<double> seconds;
    for (int i = 0; i < kSteps; ++i) {
      world_.communicator().barrier();
      const auto start = Clock::now();
      work_.step();
      seconds.push_back(seconds_since(start));
    }
    return largest(world_, median(seconds));
  }

  CheckpointCost write(CheckpointWriter& writer, bool asynchronous, double plain_step) {
    train::Manifest manifest;
    manifest.step = ++step_;
    manifest.world = world_.size();
    world_.communicator().barrier();
    CheckpointCost cost;
    auto start = Clock::now();
    writer.begin(manifest, state_);
    cost.begin_s = seconds_since(start);
    std::optional<train::WrittenCheckpoint> written;
    double working = 0;
    // Training by itself waits for the end; beside it, updates go on, and ask.
    while (!written) {
      if (asynchronous) {
        start = Clock::now();
        work_.step();
        working += seconds_since(start);
        ++cost.steps;
      }
      start = Clock::now();
      written = asynchronous ? writer.poll() : writer.finish();
      cost.poll_s += seconds_since(start);
    }
    if (asynchronous && largest(world_, written->asynchronous ? 0 : 1) > 0) {
      throw UsageError(
          "a rank lacks the memory for a copy of its part, so nothing is written beside training: "
          "fewer --bytes, --slots or ranks");
    }
    cost.written_s = largest(world_, written->seconds);
    cost.slowed_s = largest(world_, working - cost.steps * plain_step);
    const double held = cost.held_s();
    const double most = largest(world_, held);
    // Of the rank that is held longest.
    cost.begin_s = largest(world_, held < most ? 0 : cost.begin_s);
    cost.poll_s = most - cost.begin_s;
    path_ = written->path;
    return cost;
  }

  std::uint64_t growth(CheckpointWriter& writer, bool asynchronous) {
    const bool told = forget_peak_memory();
    const std::uint64_t before = resident_memory();
    if (asynchronous) writer.reserve(state_);
    write(writer, asynchronous, 0);
    const std::uint64_t peak = told ? std::max(peak_memory(), before) : before;
    return static_cast<std::uint64_t>(largest(world_, static_cast<double>(peak - before)));
  }

  CheckpointWriter writer(bool asynchronous) const {
    return CheckpointWriter(world_.communicator(), CheckpointFolder(folder_),
                            {.retention = {.last = 1, .best = false},
                             .asynchronous = asynchronous,
                             .ranks_of_host = world_.local_size()});
  }
  const std::string& newest() const { return path_; }

 private:
  const comm::World& world_;
  train::State state_;
  Work work_;
  std::string folder_;
  std::string path_;
  std::int64_t step_ = 0;
};

}  // namespace

CheckpointResult measure_checkpoint(const comm::World& world, const CheckpointSettings& settings) {
  Measurement measurement(world, settings);
  CheckpointResult result;
  result.ranks = world.size();
  result.threads = at::get_num_threads();
  // The first ones find out who sees the folder, and get memory, which is kept.
  CheckpointWriter by_training = measurement.writer(false);
  result.synchronous_growth = measurement.growth(by_training, false);
  CheckpointWriter beside = measurement.writer(true);
  result.asynchronous_growth = measurement.growth(beside, true);
  std::vector<double> steps;
  for (int i = 0; i < settings.repetitions; ++i) {
    const auto run = [&](bool asynchronous) {
      steps.push_back(measurement.plain_step());
      if (asynchronous)
        result.asynchronous.push_back(measurement.write(beside, true, steps.back()));
      else
        result.synchronous.push_back(measurement.write(by_training, false, steps.back()));
    };
    // Turns change places, so that neither always finds a disk that is still busy.
    run(i % 2 == 0);
    run(i % 2 != 0);
  }
  result.step_s = median(steps);
  std::uint64_t bytes = 0;
  if (world.rank() == 0) {
    for (const auto& entry : std::filesystem::directory_iterator(measurement.newest()))
      bytes += entry.file_size();
  }
  result.file_bytes = static_cast<std::uint64_t>(largest(world, static_cast<double>(bytes)));
  return result;
}

}  // namespace convoy::cli
