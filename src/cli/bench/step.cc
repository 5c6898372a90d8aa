#include "cli/bench/step.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/median.h"
#include "cli/bench/placement_fields.h"
#include "cli/bench/step_measure.h"
#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/output_file.h"
#include "cli/rows.h"
#include "cli/training/ranks.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/units.h"
#include "convoy/comm/world.h"
#include "convoy/model/factory.h"
#include "convoy/train/planning.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StepBenchOptions {
  StepSettings step;
  RankOptions ranks;
  std::string json;
};

struct Fractions {
  double middle = 0, least = 0, most = 0;
};

// Of what independent copies reach, in each repetition by itself.
Fractions fractions_of(const StepResult& r) {
  std::vector<double> all;
  for (std::size_t i = 0; i < r.independent.size(); ++i)
    all.push_back(r.together[i] / r.independent[i]);
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  return {median(all), *least, *most};
}

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::uint64_t>(bytes)); }

// A whole number where ranks have the same.
Json batch_per_rank(const train::Recipe& recipe, int ranks) {
  const std::int64_t batch = recipe.training.batch;
  if (batch % ranks == 0) return batch / ranks;
  return static_cast<double>(batch) / ranks;
}

Json row_of(const train::Recipe& recipe, const StepResult& r) {
  Json row{{"model", recipe.model.name},
           {"strategy", recipe.strategy},
           {"ranks", r.ranks},
           {"threads_per_rank", r.threads},
           {"batch_per_rank", batch_per_rank(recipe, r.ranks)},
           {"precision", recipe.precision}};
  if (recipe.strategy == "hybrid")
    row.update(placement_fields(train::placement_of(recipe), r.ranks));
  if (recipe.strategy == "partitioned") {
    row.update({{"images", recipe.strategy_options.text("images")},
                {"overlap", recipe.strategy_options.flag("overlap")},
                {"partitions", recipe.grid.partitions},
                {"replicas", r.ranks / recipe.grid.partitions}});
  }
  row.update({{"repetitions", r.together.size()},
              {"steps_per_repetition", r.steps_per_phase},
              {"images_per_s", median(r.together)}});
  if (!r.independent.empty()) {
    const Fractions fraction = fractions_of(r);
    row.update({{"independent_images_per_s", median(r.independent)},
                {"fraction_of_independent", fraction.middle},
                {"fraction_min", fraction.least},
                {"fraction_max", fraction.most}});
  }
  row.update({{"step_s", r.step_s},
              {"processor_s", r.processor_s},
              {"forward_s", r.forward_s},
              {"backward_s", r.backward_s},
              {"exposed_communication_s", r.waiting_s.least},
              {"communication_s", r.communication_s},
              {"hidden_communication", r.hidden},
              {"update_s", r.update_s},
              {"copy_s", r.copy_s},
              {"gradient_bytes", r.bytes},
              {"in_place_bytes", r.in_place_bytes},
              {"buckets", r.buckets},
              {"group_gradient_bytes", r.group_sum_bytes}});
  Json exchange = Json::object();
  for (const ExchangedBytes& one : r.exchanged)
    exchange[one.kind] = {{"sent_bytes", one.sent}, {"received_bytes", one.received}};
  row["exchange"] = exchange;
  row["parameters_per_rank"] = static_cast<std::int64_t>(r.parameters.most);
  row["peak_memory_bytes"] =
      r.memory.most > 0 ? Json(static_cast<std::uint64_t>(r.memory.most)) : Json(nullptr);
  if (recipe.device != "cpu") {
    row["device"] = recipe.device;
    row["peak_device_memory_bytes"] = r.device_memory.most > 0
                                          ? Json(static_cast<std::uint64_t>(r.device_memory.most))
                                          : Json(nullptr);
  }
  return row;
}

std::string strategy_text(const train::Recipe& recipe, int ranks) {
  if (recipe.strategy == "partitioned") {
    return "partitioned by " + recipe.strategy_options.text("images") + ", " +
           std::to_string(ranks / recipe.grid.partitions) + " x " +
           std::to_string(recipe.grid.partitions);
  }
  if (recipe.strategy != "hybrid") return recipe.strategy;
  const plan::Placement placement = train::placement_of(recipe);
  return plan::name_of(placement, ranks) + (placement.variable_batch ? ", variable batch" : "");
}

void print_bytes(const StepResult& r) {
  std::printf("  gradients %s in %zu bucket%s", format_bytes(r.bytes).c_str(), r.buckets,
              r.buckets == 1 ? "" : "s");
  if (r.in_place_bytes > 0)
    std::printf(", %s of it computed there", format_bytes(r.in_place_bytes).c_str());
  std::printf("\n");
  if (r.group_sum_bytes > 0)
    std::printf("  gradients of divided layers, over groups: %s\n",
                bytes_text(r.group_sum_bytes).c_str());
  for (const ExchangedBytes& one : r.exchanged) {
    if (one.sent + one.received == 0) continue;
    std::printf("  exchange: %-16s sent %s, received %s\n", one.kind.c_str(),
                bytes_text(one.sent).c_str(), bytes_text(one.received).c_str());
  }
}

void print(const StepSettings& settings, const train::Recipe& recipe, const StepResult& r) {
  std::printf(
      "%s, %s, %d rank%s x %d thread%s, batch %s per rank, %s; %zu%s repetitions of %d "
      "steps\n",
      recipe.model.name.c_str(), strategy_text(recipe, r.ranks).c_str(), r.ranks,
      r.ranks == 1 ? "" : "s", r.threads, r.threads == 1 ? "" : "s",
      batch_per_rank(recipe, r.ranks).dump().c_str(), recipe.precision.c_str(), r.together.size(),
      r.independent.empty() ? "" : " alternating", r.steps_per_phase);
  std::printf("  together                 %10.2f images/s\n", median(r.together));
  if (!r.independent.empty()) {
    const Fractions fraction = fractions_of(r);
    std::printf("  independent copies       %10.2f images/s\n", median(r.independent));
    std::printf("  fraction of independent  %10.1f %%       (%.1f to %.1f %%)\n",
                100 * fraction.middle, 100 * fraction.least, 100 * fraction.most);
  }
  std::printf(
      "  step %s: forward %s, backward %s (of it %s into buckets), exposed communication %s, "
      "update %s\n",
      format_seconds(r.step_s).c_str(), format_seconds(r.forward_s).c_str(),
      format_seconds(r.backward_s).c_str(), format_seconds(r.copy_s).c_str(),
      format_seconds(r.waiting_s.least).c_str(), format_seconds(r.update_s).c_str());
  if (r.ranks > 1) {
    std::printf("  communication under way %s, %.1f %% of it hidden\n",
                format_seconds(r.communication_s).c_str(), 100 * r.hidden);
  }
  print_bytes(r);
  std::printf("  parameters of a rank %lld, memory %s\n", static_cast<long long>(r.parameters.most),
              r.memory.most > 0 ? bytes_text(r.memory.most).c_str() : "not known");
  if (r.device_memory.most > 0)
    std::printf("  memory of its GPU %s\n", bytes_text(r.device_memory.most).c_str());
  if (!settings.timeline.empty()) {
    std::printf("  timeline of %d steps in %s\n", kTimelineSteps, settings.timeline.c_str());
  }
}

void run_step(const StepBenchOptions& options) {
  // One line here, not one from each rank.
  const StepSettings& settings = options.step;
  model::check_model_name(settings.words.model);
  train::Registry registry;
  add_made_up_images(registry);
  const int ranks = std::max(options.ranks.ranks, 1);
  if (!is_a_rank()) step_recipe(settings.words, ranks, registry);
  check_output_file("--timeline", settings.timeline);
  become_ranks(options.ranks, 0);
  in_world(options.ranks, "bench step", [&](comm::World& world) {
    const StepResult result = measure_step(world, settings, registry);
    if (world.rank() != 0) return 0;
    const train::Recipe recipe = step_recipe(settings.words, world.size(), registry);
    Rows rows(options.json);
    rows.add(row_of(recipe, result));
    if (!rows.on_standard_output()) print(settings, recipe, result);
    return 0;
  });
}

void add_strategy_options(CLI::App& command, StepWords& s) {
  command
      .add_option("--strategy", s.strategy,
                  "sync, hybrid (docs/hybrid.md) or partitioned (docs/partitioned.md)")
      ->check(CLI::IsMember({"sync", "hybrid", "partitioned"}))
      ->capture_default_str();
  command.add_option("--scheme", s.scheme, "hybrid: a, b, c or bc (c)")
      ->check(CLI::IsMember({"a", "b", "c", "bc"}));
  command.add_option("--senders", s.senders, "hybrid, scheme bc: ranks that send at a time")
      ->check(positive_integer(kMostRanks));
  command.add_option("--passes", s.passes, "hybrid, scheme c: of a step (as many as partitions)")
      ->check(positive_integer(kMostRanks));
  command.add_option("--partitions", s.partitions, "hybrid, partitioned: ranks of a group (all)")
      ->check(positive_integer(kMostRanks));
  command.add_flag("--variable-batch", s.variable_batch,
                   "hybrid: update divided layers after each pass");
  command.add_option("--bucket-bytes", s.bucket_bytes, "Size of gradient buckets (8MiB)");
  command
      .add_option("--compute-in-buckets", s.compute_in_buckets,
                  "Large fully connected layers write their gradients into buckets")
      ->capture_default_str();
  command.add_option("--precision", s.precision, "float32, or bfloat16 for autocast")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command.add_option("--channels-last", s.channels_last, "Channels-last layout")
      ->capture_default_str();
  add_set_option(command, s.overrides);
}

}  // namespace

void add_step_command(CLI::App& bench) {
  const auto options = std::make_shared<StepBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "step",
      "One training step of a strategy, on made-up images; with sync N ranks together against N "
      "independent copies at the same time");
  StepSettings& s = options->step;
  std::string models;
  for (const std::string& name : model::model_names())
    models += (models.empty() ? "" : ", ") + name;
  command->add_option("--model", s.words.model, "The network: " + models)->capture_default_str();
  command->add_option("--batch-per-rank", s.words.batch_per_rank, "Images per rank and step")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("-n,--ranks", options->ranks.ranks,
                   "Ranks to start on this machine; leave out under mpirun")
      ->check(positive_integer(kMostRanks));
  add_strategy_options(*command, s.words);
  command->add_option("--repetitions", s.repetitions, "Repetitions, alternating with sync")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--seconds", s.seconds_per_phase,
                   "How long each side of a repetition takes, about")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--timeline", s.timeline,
                   "Write what each rank did when in " + std::to_string(kTimelineSteps) +
                       " further steps, for ui.perfetto.dev")
      ->type_name("FILE")
      ->check(writes_file(kTimelineFile));
  command
      ->add_option("--json", options->json, "One JSON object to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { run_step(*options); });
}

}  // namespace convoy::cli
