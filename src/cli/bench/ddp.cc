#include "cli/bench/ddp.h"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/bench/ddp_figures.h"
#include "cli/bench/ddp_measure.h"
#include "cli/bench/ddp_rank.h"
#include "cli/bench/ddp_samples.h"
#include "cli/bench/ddp_sides.h"
#include "cli/bench/lists.h"
#include "cli/bench/peer_script.h"
#include "cli/bench/step_recipe.h"
#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/launch/mpirun.h"
#include "cli/rows.h"
#include "cli/training/ranks.h"
#include "cli/training/set_option.h"
#include "cli/training/signals.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/model/factory.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

// Networks that the peer has as well, with what a rank usually has of a batch.
struct DdpNetwork {
  const char* name;
  std::int64_t batch_per_rank;
};
constexpr std::array<DdpNetwork, 12> kDdpNetworks{{{"lenet", 128},
                                                   {"alexnet", 16},
                                                   {"resnet18", 8},
                                                   {"resnet34", 8},
                                                   {"resnet50", 8},
                                                   {"resnet101", 8},
                                                   {"vgg11", 8},
                                                   {"vgg11_bn", 8},
                                                   {"vgg16", 8},
                                                   {"vgg16_bn", 8},
                                                   {"googlenet", 8},
                                                   {"mobilenet_v2", 8}}};

struct DdpBenchOptions {
  std::string models = "lenet,alexnet,resnet18,resnet50,googlenet,mobilenet_v2";
  std::string ranks = "1,2";
  std::int64_t batch_per_rank = 0;  // 0: the network's usual one
  int threads = 0;                  // of a rank; 0: its share of the cores
  DdpTurns turns;
  DdpPeer peer;
  std::string allocator = "auto";
  double tolerance = 1e-3;
  std::vector<std::string> overrides;
  std::string json;
  std::string serve;  // in a rank: the benchmark's folder
};

// A new folder, while this object lives.
class DdpFolder {
 public:
  DdpFolder() {
    std::error_code none;
    const fs::path temporary = fs::temp_directory_path(none);
    path_ = (temporary / "convoy-bench-ddp-XXXXXX").string();
    if (!none && ::mkdtemp(path_.data()) != nullptr) return;
    throw Failure("can't make a folder in " + (none ? environment("TMPDIR") : temporary.string()) +
                  ": set TMPDIR to a folder that can be written to");
  }
  ~DdpFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  DdpFolder(const DdpFolder&) = delete;
  DdpFolder& operator=(const DdpFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const DdpNetwork& ddp_network(const std::string& name) {
  model::check_model_name(name);
  std::string names;
  for (const DdpNetwork& one : kDdpNetworks) {
    if (name == one.name) return one;
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  throw UsageError("--models: '" + name + "' is none of those that the peer has: " + names);
}

std::vector<int> numbers_of_ranks(const std::string& list) {
  std::vector<int> numbers;
  for (const std::string& word : split_list(list, "-n")) {
    const std::string problem = positive_integer(kMostRanks)(std::string(word));
    if (!problem.empty()) throw UsageError("-n: " + problem);
    numbers.push_back(std::stoi(word));
  }
  return numbers;
}

// How Convoy computes; what it computes is not changed for one side alone.
constexpr std::array<const char*, 7> kDdpKeys{
    "sync.bucket",       "sync.first_bucket", "sync.allreduce", "sync.compute_in_buckets",
    "sync.reproducible", "data.threads",      "data.ahead"};

void check_ddp_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& override : overrides) {
    const std::string key = override.substr(0, override.find('='));
    if (std::find(kDdpKeys.begin(), kDdpKeys.end(), key) != kDdpKeys.end()) continue;
    std::string names;
    for (const char* one : kDdpKeys) names += (names.empty() ? "" : ", ") + std::string(one);
    throw UsageError("--set " + override + ": PyTorch would train something else; it can be " +
                     names);
  }
}

// The same in the benchmark's process and in its ranks.
StepWords ddp_words(const std::string& name, std::int64_t batch_per_rank,
                    const std::vector<std::string>& overrides) {
  StepWords words;
  words.model = name;
  words.batch_per_rank = batch_per_rank;
  // Each step has a full batch, beyond an epoch as well.
  words.overrides = {"data.drop_last=true"};
  // Residual blocks that start as the identity: from the usual start a few steps of a residual
  // network amplify rounding, and curves could not be told apart.
  if (name.starts_with("resnet"))
    words.overrides.push_back("model.options.zero_init_residual=true");
  words.overrides.insert(words.overrides.end(), overrides.begin(), overrides.end());
  return words;
}

void serve_ddp(const DdpBenchOptions& options) {
  train::Registry registry;
  add_made_up_images(registry);
  in_world({}, "bench ddp", [&](comm::World& world) {
    const StepWords words = ddp_words(options.models, options.batch_per_rank, options.overrides);
    serve_ddp_rank(world, step_recipe(words, world.size(), registry), registry, options.serve);
    return 0;
  });
}

// Threads that wait busily between the turns of their side would take the cores of the other one.
// OpenMP's own binding would have a rank of Convoy say that it has its first thread's core alone.
void check_openmp() {
  const auto refuse = [](const char* name, const char* why) {
    throw UsageError(std::string(name) + " is " + environment(name) + ": " + why + "; unset it");
  };
  const auto is = [](const char* name, std::string_view start) {
    std::string value = environment(name);
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value.starts_with(start);
  };
  constexpr const char* kBusy = "the threads of the side that waits would keep the cores busy";
  if (is("OMP_WAIT_POLICY", "active")) refuse("OMP_WAIT_POLICY", kBusy);
  for (const char* name : {"GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
    if (is(name, "infinit")) refuse(name, kBusy);
  }
  constexpr const char* kBinds = "the command binds the ranks of both sides to the same cores";
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
    if (!environment(name).empty() && !is(name, "false")) refuse(name, kBinds);
  }
}

// All that can be wrong is found before the first training.
std::vector<DdpSetting> ddp_settings(const DdpBenchOptions& options) {
  if (is_a_rank()) {
    throw UsageError(
        "convoy bench ddp starts the ranks of both sides itself, on this machine: run it without "
        "mpirun and srun, with -n");
  }
  check_openmp();
  check_ddp_overrides(options.overrides);
  if (const std::string problem = problem_of_program(options.peer.python); !problem.empty())
    throw UsageError("--python: " + problem);
  const DdpAllocator allocator = ddp_allocator(options.allocator);
  const auto cores = static_cast<int>(usable_cores().size());
  train::Registry registry;
  add_made_up_images(registry);
  const std::vector<int> numbers = numbers_of_ranks(options.ranks);
  std::vector<DdpSetting> settings;
  for (const std::string& name : split_list(options.models, "--models")) {
    const std::int64_t usual = ddp_network(name).batch_per_rank;
    for (const int ranks : numbers) {
      DdpSetting setting;
      setting.model = name;
      setting.ranks = ranks;
      setting.threads = options.threads > 0 ? options.threads : std::max(1, cores / ranks);
      setting.batch_per_rank = options.batch_per_rank > 0 ? options.batch_per_rank : usual;
      setting.overrides = options.overrides;
      setting.recipe =
          step_recipe(ddp_words(name, setting.batch_per_rank, options.overrides), ranks, registry);
      setting.allocator = allocator;
      settings.push_back(std::move(setting));
    }
  }
  return settings;
}

void run_ddp(DdpBenchOptions& options) {
  std::vector<DdpSetting> settings = ddp_settings(options);
  options.peer.script = find_peer("torch_ddp.py", options.peer.script);
  Rows rows(options.json);
  // What is made beside is removed then.
  catch_stop_signals();
  if (!rows.on_standard_output()) print_ddp_header(options.turns.repetitions);
  std::size_t failed = 0;
  std::string complaints;
  for (DdpSetting& setting : settings) {
    const DdpFolder folder;
    setting.folder = folder.path();
    const std::size_t samples = write_ddp_samples(setting.recipe, folder.path());
    const DdpComparison comparison =
        compare_with_ddp(setting, options.peer, options.turns, samples);
    for (const auto& row : ddp_rows(comparison)) rows.add(row);
    if (!rows.on_standard_output()) print_ddp(comparison);
    if (measured_side(comparison, "convoy") == nullptr ||
        measured_side(comparison, "ddp") == nullptr)
      ++failed;
    const std::string complaint = ddp_complaint(comparison, options.tolerance);
    if (!complaint.empty()) complaints += (complaints.empty() ? "" : "; ") + complaint;
  }
  if (failed > 0) {
    throw Failure(std::to_string(failed) + " of " + std::to_string(settings.size()) +
                  " comparisons could not be made (see above)");
  }
  if (!complaints.empty()) throw Failure(complaints);
}

void add_ddp_peer_options(CLI::App& command, DdpBenchOptions& o) {
  command.add_option("--python", o.peer.python, "A Python with torch and torchvision")
      ->capture_default_str();
  command.add_option("--peer", o.peer.script, "The script that Python runs; default: torch_ddp.py");
  command.add_flag("--compile", o.turns.compile, "Also measure PyTorch with torch.compile");
  command.add_flag("--fused", o.peer.fused, "PyTorch's SGD is its fused one as well");
  command
      .add_option("--allocator", o.allocator,
                  "Of both sides: glibc, told to keep what is freed; a malloc library; auto: the "
                  "one of this program, or tcmalloc if it is there, or glibc")
      ->capture_default_str();
  command
      .add_option("--tolerance", o.tolerance,
                  "By how much of it the first loss may differ, of networks without dropout")
      ->check(positive_number())
      ->capture_default_str();
}

}  // namespace

void add_ddp_command(CLI::App& bench) {
  const auto options = std::make_shared<DdpBenchOptions>();
  DdpBenchOptions& o = *options;
  CLI::App* command = bench.add_subcommand(
      "ddp",
      "Training with sync beside PyTorch's DistributedDataParallel on gloo, in turns "
      "(docs/performance.md)");
  command->add_option("--models", o.models, "Networks, by name, one after the other")
      ->type_name("LIST")
      ->capture_default_str();
  command->add_option("-n,--ranks", o.ranks, "Numbers of ranks, one after the other")
      ->type_name("LIST")
      ->capture_default_str();
  command
      ->add_option("--batch-per-rank", o.batch_per_rank,
                   "Images per rank and step (lenet 128, alexnet 16, others 8)")
      ->check(positive_integer());
  command
      ->add_option("--threads", o.threads,
                   "Threads of a rank, of both sides (its share of the cores)")
      ->check(positive_integer());
  command->add_option("--repetitions", o.turns.repetitions, "Turns of each side")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--seconds", o.turns.seconds,
                   "How long a turn of Convoy takes, about; the others make as many steps")
      ->check(positive_number())
      ->capture_default_str();
  command->add_option("--steps", o.turns.steps, "Steps of a turn, instead of --seconds")
      ->check(positive_integer());
  add_ddp_peer_options(*command, o);
  add_set_option(*command, o.overrides);
  command->add_option("--json", o.json, "Write one JSON object per row ('-': standard output)")
      ->check(writes_file(kTableFile));
  // How the command starts each of its ranks; empty name of a group hides it from the help.
  command->add_option("--serve", o.serve)->group("");
  command->callback([options] {
    if (options->serve.empty()) return run_ddp(*options);
    serve_ddp(*options);
  });
}

}  // namespace convoy::cli
