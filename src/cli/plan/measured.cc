#include "cli/plan/measured.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/plan/folder.h"
#include "cli/plan/numbers.h"
#include "cli/plan/recipe_options.h"
#include "cli/plan/sweep.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::cli {

namespace {

// Values that the folder's times don't make count as exact.
void take_draws(const plan::PlanPoints& points, Measured& measured) {
  Sweep sweep;
  for (const plan::PointRun& run : points.runs) sweep.batches.push_back(run.batch);
  std::sort(sweep.batches.begin(), sweep.batches.end());
  PlannedMachine fitted;
  try {
    fitted = machine_of(sweep, points);
  } catch (const UsageError&) {
    return;  // there are no times, or too few
  }
  plan::Machine again = fitted.machine.machine;
  if (again.communication == measured.machine.communication &&
      again.contention == measured.machine.contention) {
    measured.delta_draws = fitted.machine.delta_draws;
    measured.contention_draws = fitted.machine.contention_draws;
  }
  again.communication = measured.machine.communication;
  again.contention = measured.machine.contention;
  again.name = measured.machine.name;
  again.model = measured.machine.model;
  again.memory_samples = measured.machine.memory_samples;
  if (again == measured.machine) measured.compute_draws = fitted.machine.compute_draws;
}

// Where the machine's communication was fitted to times of before, which whole updates are not
// among: empty where it wasn't.
std::string warning_of_times(const plan::PlanPoints& points, const plan::Machine& machine,
                             const std::string& folder) {
  const auto& times = points.communication;
  const bool known = times.empty() || std::any_of(times.begin(), times.end(), is_of_whole_update);
  if (known || machine.source != "measured") return "";
  return "times of communication in " + folder +
         " are of an earlier version, which did not keep how long whole updates took: predictions "
         "for several workers take communication for exact, and what workers on one host lose to "
         "each other for nothing; `convoy plan batch --resume` times it anew";
}

}  // namespace

void add_measured_options(CLI::App& command, MeasuredWords& words) {
  add_recipe_options(command, words.recipe);
  command.add_option("--folder", words.folder, "Where `convoy plan batch` has kept its points")
      ->type_name("DIR")
      ->capture_default_str()
      ->check(writes_folder(kPlanFolder));
  command.add_option("--level", words.level, "Which of its targets (the hardest)")
      ->type_name("LEVEL");
  command
      .add_option("--machine", words.machine,
                  "A description of the machine instead of the folder's machine.toml")
      ->type_name("FILE");
}

Measured open_measured(const MeasuredWords& words) {
  const plan::PlanPoints points = read_points(words.folder);
  Planned planned = open_planned(words.recipe, points.header);
  check_same_plan(words.folder, points.header, planned);
  double level = planned.goal.hardest();
  if (!words.level.empty()) level = parse_number(words.level, "--level");
  const plan::UpdateFit updates = plan::fit_updates(points.updates(level));
  planned.goal.levels = {level};
  const std::string own = words.folder + "/machine.toml";
  if (words.machine.empty() && !std::filesystem::exists(own)) {
    throw UsageError("there is no machine.toml in " + words.folder +
                     " yet: `convoy plan batch --resume` finishes the plan, or give --machine");
  }
  const std::string& file = words.machine.empty() ? own : words.machine;
  plan::Machine machine = plan::machine_of_toml(read_text_file(file), file);
  // Files of before do not say whose they are; the points do.
  if (machine.name.empty() && words.machine.empty() && machine.source == "measured")
    machine.name = points.machine;
  // So files of before have a machine of which one worker was timed, and no communication.
  if (words.machine.empty() && machine.source == "measured" &&
      machine.communication.kind == plan::CommunicationKind::none)
    machine.communication.kind = plan::CommunicationKind::unknown;
  Measured measured{std::move(planned), updates, std::move(machine)};
  if (words.machine.empty()) {
    take_draws(points, measured);
    const std::string warning = warning_of_times(points, measured.machine, words.folder);
    if (!warning.empty()) measured.warnings.push_back(warning);
    return measured;
  }
  const std::string warning =
      check_described(measured.machine, words.machine, words.recipe, measured.planned.recipe);
  if (!warning.empty()) measured.warnings.push_back(warning);
  return measured;
}

std::string check_described(const plan::Machine& machine, const std::string& file,
                            const RecipeWords& words, const train::Recipe& recipe) {
  if (!machine.model.empty() && machine.model != recipe.model.name) {
    throw UsageError(
        "--machine " + file + " has the times of the model '" + machine.model +
        "', and the recipe trains '" + recipe.model.name +
        "'; time that, or take `model` out of the file to plan with them all the same");
  }
  const double described = machine.communication.gradient_bytes;
  if (!(described > 0)) return "";
  const std::optional<double> own = gradient_bytes_of(words);
  constexpr double kFar = 1.05;
  if (!own || !(*own > 0) || std::max(described / *own, *own / described) <= kFar) return "";
  return "--machine " + file + " has communication.gradient_bytes = " + short_text(described) +
         ", and an update of the recipe's network sends " + short_text(*own) +
         ": communication is that of another network";
}

void check_communication(const Measured& measured, std::int64_t workers) {
  if (workers == 1 || measured.machine.communication.kind != plan::CommunicationKind::unknown)
    return;
  throw UsageError("--workers " + std::to_string(workers) +
                   ": nothing is known of communication between workers, since the plan timed one "
                   "alone; `convoy plan batch --resume` with --workers 1," +
                   std::to_string(workers) +
                   " times it, --machine FILE describes it, --workers 1 needs none");
}

}  // namespace convoy::cli
