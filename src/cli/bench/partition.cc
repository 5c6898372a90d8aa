#include "cli/bench/partition.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/median.h"
#include "base/toml_text.h"
#include "cli/bench/lists.h"
#include "cli/bench/partition_table.h"
#include "cli/bench/row_run.h"
#include "cli/bench/step_measure.h"
#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/output_file.h"
#include "cli/rows.h"
#include "cli/training/ranks.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/system.h"
#include "convoy/comm/world.h"
#include "convoy/model/factory.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

// To plan them takes time with the square of it.
constexpr int kMostPartitions = 1024;

// The paper's networks.
struct PaperModel {
  const char* name;
  const char* network;
  std::vector<std::string> overrides;
  std::int64_t batch;
};

const std::vector<PaperModel>& paper_models() {
  const auto local = [](const char* name, const char* preset) {
    return PaperModel{name,
                      "local-image",
                      {"model.options.preset=" + toml_string(preset),
                       "task.name=" + toml_string("one_vs_all"), "model.channels_last=false"},
                      16};
  };
  static const std::vector<PaperModel> all{{"speech", "speech-dnn", {}, 128},
                                           local("local-s", "80M"),
                                           local("local-m", "330M"),
                                           local("local-l", "1.7B")};
  return all;
}

constexpr std::int64_t kUsualBatch = 32;

struct PartitionBenchOptions {
  StepSettings step;
  std::string model = "speech";
  std::string partitions;  // a list; empty: as many as there are ranks
  std::int64_t batch = 0;  // 0: the model's own
  std::string images = "rows";
  bool overlap = true;
  int threads = 0;                     // of a partition; 0: see resolve()
  std::vector<std::string> overrides;  // of the command line
  std::string json;
  // Found out from these:
  std::vector<int> numbers;              // of partitions, ascending
  std::vector<std::string> network_set;  // overrides that don't say how it is divided
};

std::vector<int> numbers_of(const std::string& list) {
  std::set<int> numbers;
  if (list.empty()) return {};
  for (std::string& word : split_list(list, "-P")) {
    const std::string problem = positive_integer(kMostPartitions)(word);
    if (!problem.empty()) throw UsageError("-P: " + problem);
    numbers.insert(std::stoi(word));
  }
  return {numbers.begin(), numbers.end()};
}

// Fills in what follows from the options.
void resolve(PartitionBenchOptions& o) {
  StepWords& words = o.step.words;
  words.strategy = "partitioned";
  words.model = o.model;
  words.batch = kUsualBatch;
  for (const PaperModel& one : paper_models()) {
    if (o.model != one.name) continue;
    words.model = one.network;
    words.batch = one.batch;
    o.network_set = one.overrides;
  }
  if (o.batch > 0) words.batch = o.batch;
  model::check_model_name(words.model);
  o.numbers = numbers_of(o.partitions);
  if (!is_a_rank()) {
    if (o.numbers.empty()) {
      throw UsageError(
          "how many partitions? Write for example -P 1,2,4; under mpirun or srun they are as many "
          "as ranks");
    }
    // Those of one are to have what each of many has.
    if (o.threads == 0)
      o.threads = std::max(1, static_cast<int>(usable_cores().size()) / o.numbers.back());
  }
  if (!o.step.timeline.empty() && o.numbers.size() > 1)
    throw UsageError("--timeline is of one number of partitions: leave the others out of -P");
  check_output_file("--timeline", o.step.timeline);
  o.network_set.insert(o.network_set.end(), o.overrides.begin(), o.overrides.end());
  words.overrides = {"partitioned.images=" + toml_string(o.images),
                     std::string("partitioned.overlap=") + (o.overlap ? "true" : "false"),
                     "threads=" + std::to_string(o.threads)};
  words.overrides.insert(words.overrides.end(), o.network_set.begin(), o.network_set.end());
  o.step.inference = true;
}

// -- One number of partitions

Json json_of(const Spread& spread) {
  return {{"least", spread.least}, {"mean", spread.mean}, {"most", spread.most}};
}

Json exchange_of(const std::vector<ExchangedBytes>& kinds) {
  Json exchange = Json::object();
  for (const ExchangedBytes& one : kinds)
    exchange[one.kind] = {{"sent_bytes", one.sent}, {"received_bytes", one.received}};
  return exchange;
}

// Those that ranks of rank 0's host may use, each of which may be bound to some of them.
// Collective.
std::int64_t cores_of_host(const comm::World& world) {
  const std::vector<int> own = usable_cores();
  std::vector<std::int64_t> most{own.back() + 1};
  const comm::Communicator& all = world.communicator();
  all.allreduce(comm::buffer_of(most), comm::ReduceOp::max);
  const auto cores = static_cast<std::size_t>(most.front());
  std::vector<std::int64_t> used(cores, 0);
  if (world.host(world.rank()) == world.host(0)) {
    for (const int core : own) used[static_cast<std::size_t>(core)] = 1;
  }
  all.allreduce(comm::buffer_of(used), comm::ReduceOp::max);
  return std::count(used.begin(), used.end(), 1);
}

// `seconds` by repetition, under these names.
void add_times(Json& row, const std::string& name, const std::vector<double>& seconds) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  row[name + "_s"] = median(seconds);
  row[name + "_least_s"] = *least;
  row[name + "_most_s"] = *most;
}

Json row_of(const PartitionBenchOptions& o, const comm::World& world, std::int64_t cores,
            const train::Recipe& recipe, const StepResult& r) {
  Json row{{"kind", "partition"},
           {"model", o.model},
           {"network", recipe.model.name},
           {"partitions", r.ranks},
           {"batch", recipe.training.batch},
           {"images", recipe.strategy_options.text("images")},
           {"overlap", recipe.strategy_options.flag("overlap")},
           {"precision", recipe.precision},
           {"set", o.network_set},
           {"threads", r.threads},
           {"ranks_per_host", world.local_size()},
           {"cores_per_host", cores},
           {"repetitions", r.together.size()},
           {"training_batches_per_repetition", r.steps_per_phase},
           {"inference_batches_per_repetition", r.inference.batches_per_phase}};
  std::vector<double> seconds;
  for (const double images : r.together)
    seconds.push_back(static_cast<double>(recipe.training.batch) / images);
  add_times(row, "training", seconds);
  row.update({{"forward_s", r.forward_s},
              {"backward_s", r.backward_s},
              {"update_s", r.update_s},
              {"compute_s", json_of(r.compute_s)},
              {"waiting_s", json_of(r.waiting_s)},
              {"sent_bytes", json_of(r.sent_bytes)},
              {"exchange", exchange_of(r.exchanged)},
              {"summed_gradient_bytes", r.bytes}});
  const InferenceResult& inference = r.inference;
  add_times(row, "inference", inference.seconds);
  row.update({{"inference_communication_s", inference.communication_s},
              {"inference_sent_bytes", json_of(inference.sent_bytes)},
              {"inference_exchange", exchange_of(inference.exchanged)},
              {"parameters", json_of(r.parameters)},
              {"memory_bytes", json_of(r.memory)}});
  // The kernel that counts no memory counts none of any rank.
  if (!(r.memory.most > 0)) row["memory_bytes"] = {{"least", nullptr}, {"most", nullptr}};
  return row;
}

void measure_here(PartitionBenchOptions& o, const train::Registry& registry) {
  in_world({}, "bench partition", [&](comm::World& world) {
    // What ranks find wrong is said once.
    if (is_a_rank()) resolve(o);
    if (world.rank() == 0) Rows::check(o.json);
    if (!o.numbers.empty() && o.numbers != std::vector<int>{world.size()}) {
      throw UsageError("-P " + o.partitions + " inside a job of " + std::to_string(world.size()) +
                       (world.size() == 1 ? " rank" : " ranks") + ": leave -P out there");
    }
    const train::Recipe recipe = step_recipe(o.step.words, world.size(), registry);
    const StepResult result = measure_step(world, o.step, registry);
    const std::int64_t cores = cores_of_host(world);
    if (world.rank() != 0) return 0;
    Rows rows(o.json);
    const Json row = row_of(o, world, cores, recipe, result);
    rows.add(row);
    if (!rows.on_standard_output()) print_partition_rows({row});
    return 0;
  });
}

// -- Several numbers of partitions

std::vector<std::string> words_of(const PartitionBenchOptions& o, int partitions) {
  std::vector<std::string> words{"bench", "partition", "--json", "-"};
  const auto add = [&words](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  add("-P", std::to_string(partitions));
  add("--model", o.model);
  if (o.batch > 0) add("--batch", std::to_string(o.batch));
  add("--images", o.images);
  add("--overlap", o.overlap ? "true" : "false");
  add("--threads", std::to_string(o.threads));
  add("--precision", o.step.words.precision);
  add("--repetitions", std::to_string(o.step.repetitions));
  add("--seconds", std::to_string(o.step.seconds_per_phase));
  for (const std::string& override : o.overrides) add("--set", override);
  return words;
}

void measure_each(const PartitionBenchOptions& o) {
  Rows rows(o.json);
  std::vector<Json> measured;
  for (const int partitions : o.numbers) {
    std::fprintf(stderr, "partition: measuring %d partition%s\n", partitions,
                 partitions == 1 ? "" : "s");
    const RowRun run = run_for_rows(words_of(o, partitions));
    if (run.exit_status != 0 || run.rows.size() != 1) {
      std::fprintf(stderr, "partition: %d partition%s can't be measured (see above), going on\n",
                   partitions, partitions == 1 ? "" : "s");
      rows.add({{"kind", "partition"},
                {"model", o.model},
                {"partitions", partitions},
                {"error", run.complaint}});
      continue;
    }
    Json row = run.rows.front();
    const Json& first = measured.empty() ? row : measured.front();
    const auto speed_up = [&](const char* key) {
      return first.at(key).get<double>() / row.at(key).get<double>();
    };
    row.update({{"speedup_over_partitions", first.at("partitions")},
                {"speedup", speed_up("training_s")},
                {"inference_speedup", speed_up("inference_s")}});
    rows.add(row);
    measured.push_back(std::move(row));
  }
  if (!measured.empty() && !rows.on_standard_output()) print_partition_rows(measured);
  const std::size_t failed = o.numbers.size() - measured.size();
  if (failed > 0) {
    throw Failure(std::to_string(failed) + " of " + std::to_string(o.numbers.size()) +
                  " numbers of partitions could not be measured");
  }
}

void run_partition(PartitionBenchOptions& o) {
  train::Registry registry;
  add_made_up_images(registry);
  if (is_a_rank()) return measure_here(o, registry);
  resolve(o);
  for (const int partitions : o.numbers) step_recipe(o.step.words, partitions, registry);
  if (o.numbers.size() > 1) return measure_each(o);
  RankOptions ranks;
  ranks.ranks = o.numbers.front();
  become_ranks(ranks, 0);
  measure_here(o, registry);
}

}  // namespace

void add_partition_command(CLI::App& bench) {
  const auto options = std::make_shared<PartitionBenchOptions>();
  PartitionBenchOptions& o = *options;
  o.step.words.precision = "float32";
  CLI::App* command = bench.add_subcommand(
      "partition",
      "Training and inference of a network that is divided over more and more ranks: the speed-up "
      "of Dean et al. 2012, figure 3 (docs/partitioned.md)");
  command
      ->add_option("--model", o.model,
                   "speech (41.8 M parameters), local-s (81 M), local-m (331 M), local-l (1.7 "
                   "billion): the paper's; or another network, by name")
      ->capture_default_str();
  command
      ->add_option("-P,--partitions", o.partitions,
                   "Numbers of partitions, one after the other on this machine: 1,2,4. Leave out "
                   "under mpirun or srun, where each rank is one")
      ->type_name("LIST");
  command
      ->add_option("--batch", o.batch,
                   "Samples of a mini-batch, of all partitions together (speech 128, local-* 16, "
                   "others 32)")
      ->check(positive_integer());
  command->add_option("--images", o.images, "How images are divided: rows, or tiles")
      ->check(CLI::IsMember({"rows", "tiles"}))
      ->capture_default_str();
  command
      ->add_option("--overlap", o.overlap,
                   "Compute what needs nothing from others while that is on its way")
      ->capture_default_str();
  command
      ->add_option("--threads", o.threads,
                   "Threads of a partition (on this machine as many as the largest -P leaves cores "
                   "for each, otherwise as many as a rank has cores)")
      ->check(positive_integer());
  command->add_option("--precision", o.step.words.precision, "float32, or bfloat16 for autocast")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  add_set_option(*command, o.overrides);
  command
      ->add_option("--repetitions", o.step.repetitions,
                   "Repetitions, training and inference in turn")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--seconds", o.step.seconds_per_phase,
                   "How long training, and inference, of a repetition take, about")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--timeline", o.step.timeline,
                   "Write what each rank did when in " + std::to_string(kTimelineSteps) +
                       " further steps of training, for ui.perfetto.dev")
      ->type_name("FILE")
      ->check(writes_file(kTimelineFile));
  command
      ->add_option("--json", o.json,
                   "One JSON object for each number of partitions to this file, '-' for "
                   "standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_partition(*options); });
}

}  // namespace convoy::cli
