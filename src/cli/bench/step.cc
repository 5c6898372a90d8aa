#include "cli/bench/step.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/bench/median.h"
#include "cli/bench/step_measure.h"
#include "cli/checks.h"
#include "cli/join.h"
#include "cli/launch/again.h"
#include "cli/output_file.h"
#include "cli/rows.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/comm/world.h"
#include "convoy/model/factory.h"
#include "convoy/train/threads.h"

namespace convoy::cli {
namespace {

struct Options {
  StepSettings step;
  int ranks = 0;
  std::string json;
};

void print(const Options& options, const StepResult& r) {
  std::vector<double> fractions;
  for (std::size_t i = 0; i < r.together.size(); ++i)
    fractions.push_back(r.together[i] / r.independent[i]);
  const auto [least, most] = std::minmax_element(fractions.begin(), fractions.end());
  const double fraction = median(fractions);
  const auto& s = options.step;

  Rows rows(options.json);
  rows.add({{"model", s.model},
            {"ranks", r.ranks},
            {"threads_per_rank", r.threads},
            {"batch_per_rank", s.batch_per_rank},
            {"precision", s.precision},
            {"repetitions", r.together.size()},
            {"steps_per_repetition", r.steps_per_phase},
            {"images_per_s", median(r.together)},
            {"independent_images_per_s", median(r.independent)},
            {"fraction_of_independent", fraction},
            {"fraction_min", *least},
            {"fraction_max", *most},
            {"forward_s", r.forward_s},
            {"backward_s", r.backward_s},
            {"exposed_communication_s", r.exposed_communication_s},
            {"update_s", r.update_s},
            {"copy_s", r.copy_s},
            {"gradient_bytes", r.bytes},
            {"in_place_bytes", r.in_place_bytes},
            {"buckets", r.buckets}});
  if (rows.on_standard_output()) return;
  std::printf(
      "%s, %d rank%s x %d thread%s, batch %lld per rank, %s; %zu alternating repetitions of %d "
      "steps\n",
      s.model.c_str(), r.ranks, r.ranks == 1 ? "" : "s", r.threads, r.threads == 1 ? "" : "s",
      static_cast<long long>(s.batch_per_rank), s.precision.c_str(), r.together.size(),
      r.steps_per_phase);
  std::printf("  together                 %10.2f images/s\n", median(r.together));
  std::printf("  independent copies       %10.2f images/s\n", median(r.independent));
  std::printf("  fraction of independent  %10.1f %%       (%.1f to %.1f %%)\n", 100 * fraction,
              100 * *least, 100 * *most);
  std::printf(
      "  forward %s, backward %s (of it %s into buckets), exposed communication %s, update %s\n",
      format_seconds(r.forward_s).c_str(), format_seconds(r.backward_s).c_str(),
      format_seconds(r.copy_s).c_str(), format_seconds(r.exposed_communication_s).c_str(),
      format_seconds(r.update_s).c_str());
  std::printf("  gradients %s in %zu bucket%s", format_bytes(r.bytes).c_str(), r.buckets,
              r.buckets == 1 ? "" : "s");
  if (r.in_place_bytes > 0)
    std::printf(", %s of it computed there", format_bytes(r.in_place_bytes).c_str());
  std::printf("\n");
  if (!s.timeline.empty()) {
    std::printf("  timeline of %d steps in %s\n", kTimelineSteps, s.timeline.c_str());
  }
}

void run(const Options& options) {
  // One line here, not one from each rank.
  model::check_model_name(options.step.model);
  check_output_file("--timeline", options.step.timeline);
  if (!is_a_rank() && options.ranks > 1) run_again_as_ranks(options.ranks);
  comm::World world = join_ranks(options.ranks);
  train::set_threads(world);
  const StepResult result = measure_step(world, options.step);
  if (world.rank() == 0) print(options, result);
  world.close();
}

}  // namespace

void add_step_command(CLI::App& bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "step", "One training step: N ranks together against N independent copies at the same time");
  StepSettings& s = options->step;
  std::string models;
  for (const std::string& name : model::model_names())
    models += (models.empty() ? "" : ", ") + name;
  command->add_option("--model", s.model, "The network: " + models)->capture_default_str();
  command->add_option("--batch-per-rank", s.batch_per_rank, "Images per rank and step")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("-n,--ranks", options->ranks,
                   "Ranks to start on this machine; leave out under mpirun")
      ->check(positive_integer(kMostRanks));
  command->add_option("--repetitions", s.repetitions, "Alternating repetitions")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--seconds", s.seconds_per_phase,
                   "How long each side of a repetition takes, about")
      ->check(positive_number())
      ->capture_default_str();
  command->add_option("--precision", s.precision, "float32, or bfloat16 for autocast")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--channels-last", s.channels_last, "Channels-last layout")
      ->capture_default_str();
  command->add_option("--keep-blocks", s.keep_blocks, "The allocator that keeps large blocks")
      ->capture_default_str();
  command->add_option("--fused-update", s.fused_update, "The fused optimizer")
      ->capture_default_str();
  command->add_option_function<std::string>(
      "--bucket-bytes", [&s](const std::string& text) { s.bucket_bytes = parse_bytes(text); },
      "Size of gradient buckets (8MiB)");
  command
      ->add_option("--compute-in-buckets", s.compute_in_buckets,
                   "Large fully connected layers write their gradients into buckets")
      ->capture_default_str();
  command
      ->add_option("--timeline", s.timeline,
                   "Write what each rank did when in " + std::to_string(kTimelineSteps) +
                       " further steps, for ui.perfetto.dev")
      ->type_name("FILE");
  command->add_option("--json", options->json,
                      "One JSON object to this file, '-' for standard output");
  command->callback([options] { run(*options); });
}

}  // namespace convoy::cli
