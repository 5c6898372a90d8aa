#include "cli/bench/checkpoint.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/median.h"
#include "cli/bench/checkpoint_measure.h"
#include "cli/checks.h"
#include "cli/join.h"
#include "cli/launch/again.h"
#include "cli/rows.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/comm/world.h"
#include "convoy/train/threads.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

struct CheckpointBenchOptions {
  CheckpointSettings checkpoint;
  int ranks = 0;
  std::string json;
};

// The middle, the least and the most of one figure.
struct Repetitions {
  double middle = 0, least = 0, most = 0;
};

Repetitions repetitions_of(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

template <class Figure>
Repetitions repetitions_of(const std::vector<CheckpointCost>& costs, Figure figure) {
  std::vector<double> values;
  for (const CheckpointCost& cost : costs) values.push_back(figure(cost));
  return repetitions_of(values);
}

std::string text_of(const Repetitions& s) {
  return format_seconds(s.middle) + " (" + format_seconds(s.least) + " to " +
         format_seconds(s.most) + ")";
}

void print(const CheckpointBenchOptions& options, const CheckpointResult& r) {
  const auto held = [](const CheckpointCost& cost) { return cost.held_s(); };
  const auto begin = [](const CheckpointCost& cost) { return cost.begin_s; };
  const auto poll = [](const CheckpointCost& cost) { return cost.poll_s; };
  const auto written = [](const CheckpointCost& cost) { return cost.written_s; };
  const auto slowed = [](const CheckpointCost& cost) { return cost.slowed_s; };
  const auto steps = [](const CheckpointCost& cost) { return static_cast<double>(cost.steps); };
  std::vector<double> ratios, ratios_with_slower_steps;
  for (std::size_t i = 0; i < r.asynchronous.size(); ++i) {
    const CheckpointCost &beside = r.asynchronous[i], &itself = r.synchronous[i];
    ratios.push_back(beside.held_s() / itself.held_s());
    ratios_with_slower_steps.push_back((beside.held_s() + beside.slowed_s) / itself.held_s());
  }
  const Repetitions asynchronous = repetitions_of(r.asynchronous, held),
                    synchronous = repetitions_of(r.synchronous, held),
                    ratio = repetitions_of(ratios),
                    ratio_with_slower_steps = repetitions_of(ratios_with_slower_steps),
                    slower = repetitions_of(r.asynchronous, slowed);

  Rows rows(options.json);
  rows.add({{"ranks", r.ranks},
            {"threads_per_rank", r.threads},
            {"model_bytes", options.checkpoint.bytes},
            {"file_bytes", r.file_bytes},
            {"repetitions", r.asynchronous.size()},
            {"asynchronous_held_s", asynchronous.middle},
            {"asynchronous_held_min_s", asynchronous.least},
            {"asynchronous_held_max_s", asynchronous.most},
            {"begin_s", repetitions_of(r.asynchronous, begin).middle},
            {"poll_s", repetitions_of(r.asynchronous, poll).middle},
            {"synchronous_held_s", synchronous.middle},
            {"synchronous_held_min_s", synchronous.least},
            {"synchronous_held_max_s", synchronous.most},
            {"ratio", ratio.middle},
            {"ratio_min", ratio.least},
            {"ratio_max", ratio.most},
            {"asynchronous_written_s", repetitions_of(r.asynchronous, written).middle},
            {"steps_meanwhile", repetitions_of(r.asynchronous, steps).middle},
            {"step_s", r.step_s},
            {"slower_steps_s", slower.middle},
            {"slower_steps_min_s", slower.least},
            {"slower_steps_max_s", slower.most},
            {"ratio_with_slower_steps", ratio_with_slower_steps.middle},
            {"ratio_with_slower_steps_min", ratio_with_slower_steps.least},
            {"ratio_with_slower_steps_max", ratio_with_slower_steps.most},
            {"asynchronous_growth_bytes", r.asynchronous_growth},
            {"synchronous_growth_bytes", r.synchronous_growth}});
  if (rows.on_standard_output()) return;
  std::printf(
      "a model of %s, checkpoints of %s, %d rank%s x %d thread%s; %zu alternating repetitions; "
      "medians (least to most)\n",
      format_bytes(options.checkpoint.bytes).c_str(), format_bytes(r.file_bytes).c_str(), r.ranks,
      r.ranks == 1 ? "" : "s", r.threads, r.threads == 1 ? "" : "s", r.asynchronous.size());
  std::printf("  written while training goes on, it is held up for %s: %s to begin, %s to ask\n",
              text_of(asynchronous).c_str(),
              format_seconds(repetitions_of(r.asynchronous, begin).middle).c_str(),
              format_seconds(repetitions_of(r.asynchronous, poll).middle).c_str());
  std::printf("  written by training itself                       %s\n",
              text_of(synchronous).c_str());
  std::printf("  ratio                                            %.1f %% (%.1f to %.1f %%)\n",
              100 * ratio.middle, 100 * ratio.least, 100 * ratio.most);
  std::printf(
      "  it is there after %s and %.0f steps (of %s alone), which took %s longer than alone\n",
      format_seconds(repetitions_of(r.asynchronous, written).middle).c_str(),
      repetitions_of(r.asynchronous, steps).middle, format_seconds(r.step_s).c_str(),
      text_of(slower).c_str());
  std::printf("  ratio with that                                  %.1f %% (%.1f to %.1f %%)\n",
              100 * ratio_with_slower_steps.middle, 100 * ratio_with_slower_steps.least,
              100 * ratio_with_slower_steps.most);
  std::printf("  memory of a rank grows by %s, and by %s\n",
              format_bytes(r.asynchronous_growth).c_str(),
              format_bytes(r.synchronous_growth).c_str());
}

// A new folder in the one that was named, while this object lives; on rank 0.
class Folder {
 public:
  explicit Folder(const std::string& parent) {
    path_ = (fs::path(parent.empty() ? "." : parent) / "convoy-bench-checkpoint-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr)
      throw UsageError("--folder: can't make a folder in '" + parent + "'");
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void run_checkpoint(const CheckpointBenchOptions& options) {
  if (!is_a_rank() && !fs::is_directory(options.checkpoint.folder))
    throw UsageError("--folder: '" + options.checkpoint.folder + "' is no folder");
  if (!is_a_rank() && options.ranks > 1) run_again_as_ranks(options.ranks);
  comm::World world = join_ranks(options.ranks);
  train::set_threads(world);
  std::unique_ptr<Folder> folder;
  if (world.rank() == 0) folder = std::make_unique<Folder>(options.checkpoint.folder);
  CheckpointSettings settings = options.checkpoint;
  settings.folder = world.communicator().broadcast_text(folder ? folder->path() : "", 0);
  const CheckpointResult result = measure_checkpoint(world, settings);
  if (world.rank() == 0) print(options, result);
  world.communicator().barrier();
  folder.reset();
  world.close();
}

}  // namespace

void add_checkpoint_command(CLI::App& bench) {
  const auto options = std::make_shared<CheckpointBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "checkpoint",
      "How long a checkpoint holds training up: written while it goes on, against written by it");
  CheckpointSettings& s = options->checkpoint;
  s.folder = ".";
  command->add_option_function<std::string>(
      "--bytes", [&s](const std::string& text) { s.bytes = parse_bytes(text); },
      "Size of the model (230MB); the optimizer's comes on top");
  command->add_option("--slots", s.slots, "Tensors of the optimizer for each of the model")
      ->check(CLI::Range(0, 8))
      ->capture_default_str();
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Ranks to start on this machine; leave out under mpirun")
      ->check(positive_integer(kMostRanks));
  command
      ->add_option("--folder", s.folder,
                   "Where checkpoints are written, in a folder that is removed: the disk counts")
      ->capture_default_str();
  command->add_option("--repetitions", s.repetitions, "Alternating repetitions")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--step", s.step_s,
                   "Seconds that a step of made-up training (matrix products) takes, about")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--json", options->json, "One JSON object to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_checkpoint(*options); });
}

}  // namespace convoy::cli
