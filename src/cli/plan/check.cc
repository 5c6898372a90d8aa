// convoy plan check: whether a plan's predictions are right.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/checks.h"
#include "cli/launch/report.h"
#include "cli/plan/measure.h"
#include "cli/plan/measured.h"
#include "cli/plan/numbers.h"
#include "cli/plan/subcommands.h"
#include "cli/plan/trial.h"
#include "cli/rows.h"
#include "cli/training/signals.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/system.h"
#include "convoy/base/units.h"
#include "convoy/plan/choice.h"

namespace convoy::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kSeeds = 1000;  // seeds above it are new to a plan

struct Arguments {
  MeasuredWords measured;
  int workers = 1;
  int seeds = 3;
  double longest = 0;
  std::string json;
};

struct Checked {
  std::int64_t batch = 0;
  double learning_rate = 0;
  double updates = 0;  // predicted, and the seconds of an update
  double seconds = 0;
};

// A quarter of the best batch, it, and four times as much, as far as there are.
std::vector<Checked> list(const Measured& measured, std::int64_t workers) {
  const std::int64_t samples = measured.planned.samples;
  const plan::BatchChoice choice =
      plan::choose_batch(measured.updates, {measured.machine, {}, {}}, workers, samples);
  std::vector<Checked> checked;
  for (const double factor : {0.25, 1.0, 4.0}) {
    const std::int64_t batch = std::llround(factor * static_cast<double>(choice.batch));
    if (batch < workers || batch > samples) continue;
    Checked one;
    one.batch = batch;
    one.learning_rate =
        plan::learning_rate_for(measured.updates.envelope, static_cast<double>(batch));
    one.updates = plan::updates_to_target(measured.updates.law, static_cast<double>(batch));
    one.seconds =
        plan::convergence_seconds(measured.updates.law, measured.machine, batch, workers) /
        one.updates;
    checked.push_back(one);
  }
  return checked;
}

struct RunOutcome {
  bool reached = false;
  double updates = 0;
  double seconds = 0;  // of an update
};

class Checker {
 public:
  Checker(const Measured& measured, const Arguments& arguments, const std::string& folder)
      : measured_(measured), arguments_(arguments), folder_(folder), cores_(usable_cores()) {}

  ~Checker() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  RunOutcome train(const Checked& what, std::uint64_t seed) {
    const Planned& planned = measured_.planned;
    const double epochs = arguments_.longest > 0 ? arguments_.longest : 4 * planned.epochs;
    const auto longest = static_cast<std::int64_t>(
        std::ceil(epochs * static_cast<double>(planned.samples) / static_cast<double>(what.batch)));
    constexpr double kEvaluations = 10;  // at least, until the target
    const auto every = std::clamp<std::int64_t>(std::llround(what.updates / kEvaluations), 1,
                                                planned.usual_interval(what.batch));
    Trial trial(planned.run(what.batch, what.learning_rate, seed, every, longest),
                folder_ + "/check-" + std::to_string(++runs_), arguments_.workers, {cores_.front()},
                planned.goal.of_task);
    while (trial.poll()) wait_a_little();
    if (!trial.good() && !trial.diverged())
      throw Failure("training with batch " + std::to_string(what.batch) +
                    " failed: " + trial.complaint());
    RunOutcome outcome;
    double sum = 0;
    const auto& updates = trial.metrics().updates();
    // The first are slower; a plan's times are without them, too.
    const std::size_t first = updates.size() > 10 ? 5 : 0;
    for (std::size_t i = first; i < updates.size(); ++i) sum += updates[i].seconds;
    outcome.seconds = updates.empty() ? 0 : sum / static_cast<double>(updates.size() - first);
    const auto reached = reached_levels(planned.goal, trial.metrics().curve());
    outcome.reached = !reached.empty();
    if (outcome.reached) outcome.updates = static_cast<double>(reached.front().second);
    return outcome;
  }

 private:
  const Measured& measured_;
  const Arguments& arguments_;
  std::string folder_;
  std::vector<int> cores_;
  int runs_ = 0;
};

std::string ratio(double measured, double predicted) {
  char text[32];
  std::snprintf(text, sizeof text, "%+.0f%%", 100 * (measured / predicted - 1));
  return text;
}

void print(const Checked& what, const std::vector<RunOutcome>& outcomes, Rows& rows,
           std::FILE* out) {
  double updates = 0, each = 0, seconds = 0;
  int reached = 0;
  for (const RunOutcome& outcome : outcomes) {
    each += outcome.seconds / static_cast<double>(outcomes.size());
    if (!outcome.reached) continue;
    ++reached;
    updates += outcome.updates;
    seconds += outcome.updates * outcome.seconds;
  }
  const double predicted = what.updates * what.seconds;
  Json row{{"kind", "check"},
           {"batch", what.batch},
           {"learning_rate", what.learning_rate},
           {"runs", outcomes.size()},
           {"reached", reached},
           {"predicted_updates", what.updates},
           {"updates", nullptr},
           {"predicted_update_s", what.seconds},
           {"update_s", each},
           {"predicted_seconds", predicted},
           {"seconds", nullptr}};
  std::fprintf(out, "%8lld %8s %6d/%zu", static_cast<long long>(what.batch),
               short_text(what.learning_rate).c_str(), reached, outcomes.size());
  if (reached == 0) {
    std::fprintf(out, "   the target was not reached; %s updates were predicted\n",
                 short_text(what.updates).c_str());
  } else {
    updates /= reached, seconds /= reached;
    row["updates"] = updates;
    row["seconds"] = seconds;
    std::fprintf(out, " %9s %9s %6s  %9s %9s %6s  %9s %9s %6s\n", short_text(what.updates).c_str(),
                 short_text(updates).c_str(), ratio(updates, what.updates).c_str(),
                 format_seconds(what.seconds).c_str(), format_seconds(each).c_str(),
                 ratio(each, what.seconds).c_str(), format_seconds(predicted).c_str(),
                 format_seconds(seconds).c_str(), ratio(seconds, predicted).c_str());
  }
  std::fflush(out);
  rows.add(row);
}

int run(const Arguments& arguments) {
  Rows rows(arguments.json);
  std::FILE* out = rows.on_standard_output() ? stderr : stdout;
  const Measured measured = open_measured(arguments.measured);
  if (arguments.workers > static_cast<int>(usable_cores().size())) {
    throw UsageError("--workers " + std::to_string(arguments.workers) + ": there are " +
                     std::to_string(usable_cores().size()) + " cores here, one for each worker");
  }
  for (const std::string& warning : measured.updates.warnings)
    std::fprintf(out, "warning: %s\n", warning.c_str());
  const std::vector<Checked> batches = list(measured, arguments.workers);
  catch_stop_signals();
  try {
    const std::string folder = arguments.measured.folder + "/check-runs";
    Checker checker(measured, arguments, folder);
    std::fprintf(out, "%8s %8s %8s %29s %29s %29s\n", "", "", "", "updates      ",
                 "seconds of an update   ", "seconds to the target   ");
    std::fprintf(out, "%8s %8s %8s %9s %9s %6s  %9s %9s %6s  %9s %9s %6s\n", "batch", "rate",
                 "reached", "predicted", "measured", "", "predicted", "measured", "", "predicted",
                 "measured", "");
    for (const Checked& what : batches) {
      std::vector<RunOutcome> outcomes;
      for (int i = 1; i <= arguments.seeds; ++i)
        outcomes.push_back(checker.train(what, kSeeds + static_cast<std::uint64_t>(i)));
      print(what, outcomes, rows, out);
    }
  } catch (const PlanStopped&) {
    std::fprintf(out, "stopped\n");
    return kExitRequeue;
  }
  return 0;
}

}  // namespace

void add_plan_check_command(CLI::App& plan, Outcome& outcome) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = plan.add_subcommand(
      "check",
      "Train with a measured plan's batch, a quarter of it and four times as much, and compare");
  add_measured_options(*command, arguments->measured);
  command->add_option("--workers", arguments->workers, "Workers to train with")
      ->type_name("P")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--seeds", arguments->seeds, "Trainings with each batch, with new seeds")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--longest", arguments->longest,
                   "When a run is given up, in epochs (four times as long as the recipe)")
      ->type_name("EPOCHS")
      ->check(positive_number());
  command->add_option("--json", arguments->json, "The table as JSON ('-': standard output)")
      ->type_name("FILE");
  command->callback([arguments, &outcome] { outcome.exit_status = run(*arguments); });
}

}  // namespace convoy::cli
