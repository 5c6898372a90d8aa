// convoy plan noise: which batch the noise of gradients names.
#include "convoy/plan/noise.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include "base/toml_text.h"
#include "cli/checks.h"
#include "cli/launch/report.h"
#include "cli/plan/estimates.h"
#include "cli/plan/folder.h"
#include "cli/plan/numbers.h"
#include "cli/plan/recipe_options.h"
#include "cli/plan/subcommands.h"
#include "cli/plan/trial.h"
#include "cli/rows.h"
#include "cli/training/signals.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/plan/update_fit.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNoiseDescription =
    "Train once, and say which mini-batch the noise of the gradient names (docs/planning.md)";

struct NoiseArguments {
  RecipeWords recipe;
  std::string folder = "plan", json;
  int batch = 0;
  double rate = 0;
  int parts = 4;
  int windows = plan::NoiseOptions().windows;
  int seed = 1;
  double longest = 0;
};

// The law of the runs that the plan has, where there are enough of them.
std::optional<plan::UpdateFit> law_of(const plan::PlanPoints& points, double level) {
  try {
    return plan::fit_updates(points.updates(level));
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// The training whose noise is measured.
struct NoiseTraining {
  std::int64_t batch = 0, parts = 0;
  double rate = 0;
  std::int64_t every = 1;    // updates between evaluations
  std::int64_t longest = 0;  // in updates
};

NoiseTraining wanted_of(const NoiseArguments& arguments, const Planned& planned,
                        const plan::PlanPoints& points) {
  const train::Recipe& recipe = planned.recipe;
  if (recipe.strategy != "sync") {
    throw UsageError(
        "the noise of gradients is measured with the strategy sync, and the plan is for " +
        recipe.strategy + ": plan for --set strategy=sync");
  }
  NoiseTraining wanted;
  wanted.batch = arguments.batch > 0 ? arguments.batch : recipe.training.batch;
  if (wanted.batch < 2 || wanted.batch > planned.samples) {
    throw UsageError("--batch " + std::to_string(wanted.batch) +
                     ": it takes from 2, whose parts can be compared with it, to all " +
                     std::to_string(planned.samples) +
                     (planned.counts_samples ? " samples" : " that the data counts"));
  }
  wanted.parts = std::min<std::int64_t>(arguments.parts, wanted.batch);
  wanted.every = planned.usual_interval(wanted.batch);
  wanted.rate = arguments.rate;
  const auto batch = static_cast<double>(wanted.batch);
  if (const auto law = law_of(points, planned.goal.hardest())) {
    constexpr double kEvaluations = 10;  // at least, until the target
    const double updates =
        law->law.updates_at_infinity + law->law.noise_sensitivity / batch;  // can be below 0
    wanted.every = std::clamp<std::int64_t>(std::llround(updates / kEvaluations), 1, wanted.every);
    if (wanted.rate == 0) wanted.rate = plan::learning_rate_for(law->envelope, batch);
  }
  if (wanted.rate == 0) wanted.rate = recipe.optimizer.lr;
  const double epochs = arguments.longest > 0 ? arguments.longest : 4 * planned.epochs;
  wanted.longest = updates_in(epochs, planned.samples, wanted.batch);
  return wanted;
}

struct Measured {
  std::vector<plan::NoiseMeasurement> noise;
  Curve curve;
  std::int64_t updates = 0;
  double seconds = 0;
};

Measured measure(const Planned& planned, const NoiseTraining& wanted,
                 const NoiseArguments& arguments) {
  train::Recipe recipe =
      planned.run(wanted.batch, wanted.rate, static_cast<std::uint64_t>(arguments.seed),
                  wanted.every, wanted.longest);
  recipe.training.accumulate = wanted.parts;
  recipe.training.noise_every = 1;
  const TrialFolders folders(arguments.folder);
  Trial trial(recipe, folders.fresh(),
              places_of(usable_cores(), {}, static_cast<int>(recipe.threads)).front(),
              planned.goal.of_task);
  while (trial.poll()) wait_a_little();
  const std::string what =
      "training with batch " + std::to_string(wanted.batch) + ", rate " + shortest(wanted.rate);
  if (trial.diverged()) throw UsageError(what + " diverged; choose a smaller --rate");
  if (trial.refused()) throw UsageError(what + ": " + trial.complaint());
  if (!trial.good()) throw Failure(what + " failed: " + trial.complaint());
  Measured measured{noise_by_cost(trial.metrics().noise(), static_cast<double>(wanted.batch)),
                    trial.metrics().curve(), 0, trial.seconds()};
  if (!trial.metrics().updates().empty()) measured.updates = trial.metrics().updates().back().step;
  return measured;
}

// Until a level, or to the end of a training that has reached none.
struct Stretch {
  std::optional<double> level;
  std::int64_t updates = 0;
  plan::NoiseFit noise;
};

Stretch stretch_of(const Measured& measured, const NoiseTraining& wanted, int windows,
                   std::int64_t updates) {
  std::vector<plan::NoiseMeasurement> until;
  for (const plan::NoiseMeasurement& one : measured.noise) {
    if (one.update <= updates) until.push_back(one);
  }
  if (until.size() < plan::kFewestNoiseMeasurements &&
      updates >= static_cast<std::int64_t>(2 * plan::kFewestNoiseMeasurements)) {
    throw UsageError("the noise was measured in " + std::to_string(until.size()) + " of " +
                     std::to_string(updates) + " updates, and " +
                     std::to_string(plan::kFewestNoiseMeasurements) + " are needed: batches of " +
                     std::to_string(wanted.batch) +
                     " can't be cut into parts that the model can be trained on (batch "
                     "normalization may need two samples at least): choose a larger --batch");
  }
  if (until.size() < plan::kFewestNoiseMeasurements) {
    throw UsageError("the training took " + std::to_string(updates) +
                     " updates, too few to tell anything of their noise (" +
                     std::to_string(plan::kFewestNoiseMeasurements) +
                     " are needed): choose a smaller --batch, or a harder target for the plan");
  }
  plan::NoiseOptions options;
  options.windows = windows;
  return {std::nullopt, updates,
          plan::fit_noise(until, static_cast<double>(wanted.batch), static_cast<double>(updates),
                          options)};
}

// By levels, the hardest at last; at least one.
std::vector<Stretch> stretches_of(const Measured& measured, const Planned& planned,
                                  const NoiseTraining& wanted, int windows) {
  std::vector<Stretch> stretches;
  const auto reached = reached_levels(planned.goal, measured.curve);
  for (const auto& [level, updates] : reached) {
    // One that is reached at once tells nothing, and others may.
    if (level != reached.back().first &&
        updates < static_cast<std::int64_t>(2 * plan::kFewestNoiseMeasurements))
      continue;
    stretches.push_back(stretch_of(measured, wanted, windows, updates));
    stretches.back().level = level;
  }
  if (stretches.empty())
    stretches.push_back(stretch_of(measured, wanted, windows, measured.updates));
  return stretches;
}

// What the plan's runs say of the same: alpha / N_inf.
plan::Estimate batch_of(const plan::UpdateFit& fit) {
  const auto quotient = [](const plan::UpdateLaw& law) {
    return law.updates_at_infinity > 0 ? law.noise_sensitivity / law.updates_at_infinity
                                       : std::numeric_limits<double>::infinity();
  };
  std::vector<double> draws;
  for (const plan::UpdateLaw& law : fit.draws) draws.push_back(quotient(law));
  return {quotient(fit.law), plan::interval_of(draws)};
}

std::string value_text(double value) { return std::isfinite(value) ? short_text(value) : "-"; }

// The last value of the metric there.
std::string metric_text(const Curve& curve, std::int64_t until) {
  double value = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [update, one] : curve) {
    if (update <= until) value = one;
  }
  return value_text(value);
}

void print_windows(const Stretch& stretch, const std::string& metric, const Curve& curve,
                   std::FILE* out) {
  std::fprintf(out, "%20s %12s %12s %12s %12s\n", "updates", metric.c_str(), "|G|^2", "tr(Sigma)",
               "noise scale");
  for (const plan::NoiseWindow& window : stretch.noise.windows) {
    const std::string updates = std::to_string(window.first) + " to " + std::to_string(window.last);
    std::fprintf(out, "%20s %12s %12s %12s %12s\n", updates.c_str(),
                 metric_text(curve, window.last).c_str(),
                 value_text(window.gradient_square).c_str(), value_text(window.variance).c_str(),
                 value_text(window.scale()).c_str());
  }
}

std::string law_text(const plan::UpdateLaw& law) {
  return value_text(law.updates_at_infinity) + " + " + value_text(law.noise_sensitivity) + "/M";
}

void report(const Stretch& stretch, const std::string& metric, const NoiseTraining& wanted,
            const std::optional<plan::UpdateFit>& fit, Rows& rows, std::FILE* out) {
  Json row{{"kind", "noise"},
           {"metric", metric},
           {"target", stretch.level ? Json(*stretch.level) : Json(nullptr)},
           {"updates", stretch.updates},
           {"batch", wanted.batch},
           {"parts", wanted.parts},
           {"learning_rate", wanted.rate}};
  const plan::NoiseFit& noise = stretch.noise;
  add(row, "noise_batch", noise.batch);
  row["updates_at_infinity"] = noise.law.updates_at_infinity;
  row["noise_sensitivity"] = noise.law.noise_sensitivity;
  row["trusted"] = noise.trusted;
  row["warnings"] = noise.warnings;
  const std::string until =
      stretch.level ? metric + " " + shortest(*stretch.level) : "what was trained";
  std::fprintf(out,
               "\n%s: %lld updates; the noise of the gradient names the batch %s, by which it "
               "is %s updates\n",
               until.c_str(), static_cast<long long>(stretch.updates),
               text_of(noise.batch, value_text).c_str(), law_text(noise.law).c_str());
  for (const std::string& warning : noise.warnings)
    std::fprintf(out, "  warning: %s\n", warning.c_str());
  if (fit) {
    const plan::Estimate batch = batch_of(*fit);
    add(row, "plan_batch", batch);
    row["plan_trusted"] = fit->trusted;
    std::fprintf(out, "  the plan's runs took %s, whose alpha/N_inf is %s%s\n",
                 law_text(fit->law).c_str(), text_of(batch, value_text).c_str(),
                 fit->trusted ? "" : " (not to be trusted)");
  }
  rows.add(row);
}

Json row_of(const plan::NoiseWindow& window) {
  return {{"kind", "noise_window"},
          {"first_update", window.first},
          {"last_update", window.last},
          {"measurements", window.measurements},
          {"gradient_square", window.gradient_square},
          {"gradient_variance", window.variance},
          {"noise_scale", number(window.scale())}};
}

int run_noise(const NoiseArguments& arguments) {
  Rows rows(arguments.json);
  std::FILE* out = rows.on_standard_output() ? stderr : stdout;
  const plan::PlanPoints points = read_points(arguments.folder);
  const Planned planned = open_planned(arguments.recipe, points.header);
  check_same_plan(arguments.folder, points.header, planned);
  const NoiseTraining wanted = wanted_of(arguments, planned, points);
  catch_stop_signals();
  try {
    std::fprintf(out, "batch %lld in %lld parts, rate %s, seed %d\n",
                 static_cast<long long>(wanted.batch), static_cast<long long>(wanted.parts),
                 shortest(wanted.rate).c_str(), arguments.seed);
    std::fflush(out);
    const Measured measured = measure(planned, wanted, arguments);
    const std::vector<Stretch> stretches =
        stretches_of(measured, planned, wanted, arguments.windows);
    print_windows(stretches.back(), planned.goal.metric, measured.curve, out);
    for (const plan::NoiseWindow& window : stretches.back().noise.windows) rows.add(row_of(window));
    for (const Stretch& stretch : stretches) {
      report(stretch, planned.goal.metric, wanted,
             stretch.level ? law_of(points, *stretch.level) : std::nullopt, rows, out);
    }
    if (stretches.back().level != planned.goal.hardest()) {
      std::fprintf(out, "%s %s was not reached in %lld updates; --longest EPOCHS trains longer\n",
                   planned.goal.metric.c_str(), shortest(planned.goal.hardest()).c_str(),
                   static_cast<long long>(measured.updates));
    }
    std::fprintf(out, "\nmeasured in %s\n", format_seconds(measured.seconds).c_str());
  } catch (const PlanStopped&) {
    std::fprintf(out, "stopped\n");
    return kExitRequeue;
  }
  return 0;
}

}  // namespace

void add_plan_noise_command(CLI::App& plan, Outcome& outcome) {
  auto arguments = std::make_shared<NoiseArguments>();
  CLI::App* command = plan.add_subcommand("noise", kNoiseDescription);
  add_recipe_options(*command, arguments->recipe);
  command
      ->add_option("--folder", arguments->folder, "Where `convoy plan batch` has kept its points")
      ->type_name("DIR")
      ->capture_default_str()
      ->check(writes_folder(kPlanFolder));
  command->add_option("--batch", arguments->batch, "The mini-batch to train with (the recipe's)")
      ->type_name("M")
      ->check(positive_integer());
  command
      ->add_option("--rate", arguments->rate,
                   "The learning rate (the best of the plan's runs, or else the recipe's)")
      ->type_name("RATE")
      ->check(positive_number());
  command
      ->add_option("--parts", arguments->parts,
                   "Micro-batches of each mini-batch, one of which is compared with it")
      ->check(CLI::Range(2, 1000000))
      ->capture_default_str();
  command->add_option("--windows", arguments->windows, "Parts of the training to average over")
      ->check(CLI::Range(5, 1000000))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Of the training")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--longest", arguments->longest,
                   "When the run is given up, in epochs (four times as long as the recipe)")
      ->type_name("EPOCHS")
      ->check(positive_number());
  command->add_option("--json", arguments->json, "The table as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments, &outcome] { outcome.exit_status = run_noise(*arguments); });
}

}  // namespace convoy::cli
