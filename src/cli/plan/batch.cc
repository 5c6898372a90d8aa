// convoy plan batch: which mini-batch, for the user's recipe, target and machine.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/own_files.h"
#include "base/toml_text.h"
#include "cli/checks.h"
#include "cli/launch/report.h"
#include "cli/plan/measured.h"
#include "cli/plan/normalizing.h"
#include "cli/plan/numbers.h"
#include "cli/plan/plan_file.h"
#include "cli/plan/plan_recipe.h"
#include "cli/plan/recipe_options.h"
#include "cli/plan/report.h"
#include "cli/plan/subcommands.h"
#include "cli/plan/sweep.h"
#include "cli/plan/trial.h"
#include "cli/plan/unlike_hosts.h"
#include "cli/rows.h"
#include "cli/training/signals.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::cli {
namespace {

constexpr const char* kBatchDescription =
    "Find the mini-batch with which training reaches a target soonest (docs/planning.md)\n"
    "Measures updates and trainings of the recipe, each in a process of its own, and says what is\n"
    "best for each number of workers. Killed or stopped anywhere, --resume repeats no finished "
    "run.";

struct BatchArguments {
  RecipeWords recipe;
  GoalWords goal;
  HostWords hosts;
  std::string batches, rates, workers, timed, budget, machine, json;
  std::string folder = "plan";
  int seeds = 3;
  int repetitions = 3;
  int jobs = 0;
  int most_samples = 0;
  double longest = 0;
  int every = 0;
  bool resume = false;
};

// `values`, or those of the option when it was given, up to `most`.
std::vector<std::int64_t> counts(const std::string& given, const char* option,
                                 std::vector<std::int64_t> values, std::int64_t most) {
  if (!given.empty()) {
    values = parse_counts(given, option);
    if (values.back() > most) {
      throw UsageError(std::string(option) + ": " + std::to_string(values.back()) +
                       " is more than the data has: " + std::to_string(most) + " samples");
    }
  }
  std::erase_if(values, [most](std::int64_t value) { return value > most; });
  return values;
}

// From 1 in steps of `factor`.
std::vector<std::int64_t> powers(std::int64_t factor, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = 1; value <= most; value *= factor) values.push_back(value);
  return values;
}

Sweep sweep_of(const BatchArguments& arguments, const Planned& planned) {
  Sweep sweep;
  sweep.workplace =
      Workplace::of(arguments.hosts, planned.gpus, static_cast<int>(planned.recipe.threads));
  const std::int64_t most = sweep.workplace.most();
  sweep.batches = counts(arguments.batches, "--batches", {16, 64, 256, 1024}, planned.samples);
  sweep.smaller_batches = arguments.batches.empty();
  if (sweep.batches.size() < 2)
    throw UsageError("--batches: updates by batch need two different ones at least");
  const double rate = planned.recipe.optimizer.lr;
  sweep.rates = arguments.rates.empty() ? std::vector<double>{rate / 2, rate, rate * 2}
                                        : parse_positive_numbers(arguments.rates, "--rates");
  sweep.seeds = arguments.seeds;
  // With a budget runs follow from what is known by then, and a folder may have others already.
  const auto runs = sweep.batches.size() * static_cast<std::size_t>(std::max(0, sweep.seeds));
  if (runs < 3 && !sweep.smaller_batches && arguments.budget.empty() && !arguments.resume)
    throw UsageError("--batches, --seeds: " + std::to_string(sweep.batches.size()) +
                     " batches with " + std::to_string(sweep.seeds) +
                     " run of each rate are too few: updates by batch need three runs at least; "
                     "--seeds 2, or a third batch");
  sweep.repetitions = arguments.repetitions;
  sweep.workers = counts(arguments.workers, "--workers", powers(2, most), planned.samples);
  sweep.jobs = arguments.jobs;
  sweep.memory_samples = arguments.most_samples;
  std::int64_t timed = sweep.batches.back();
  if (sweep.memory_samples > 0) timed = std::min(timed, sweep.memory_samples);
  sweep.timed = counts(arguments.timed, "--time", powers(4, timed), planned.samples);
  if (!arguments.machine.empty()) {
    if (!arguments.timed.empty())
      throw UsageError("--machine says how long updates take; leave --time out");
    if (!sweep.workplace.hosts.empty())
      throw UsageError("--machine says how long updates take; leave --hosts and --hostfile out");
    sweep.machine = plan::machine_of_toml(read_text_file(arguments.machine), arguments.machine);
  } else if (sweep.timed.size() < 2) {
    throw UsageError("--time: times by batch need two different ones at least");
  } else if (most == 1 && sweep.workers.back() > 1) {
    throw UsageError("--workers: there is one " + std::string(sweep.workplace.unit()) +
                     ", so communication can't be measured; describe it with --machine FILE, name "
                     "more --hosts, or plan for --workers 1");
  }
  sweep.limits.epochs = arguments.longest > 0 ? arguments.longest : 4 * planned.epochs;
  sweep.limits.every = arguments.every;
  if (!arguments.budget.empty()) {
    constexpr double kYear = 366 * 86400.0;  // a clock's duration holds some hundred
    const std::chrono::duration<double> budget(
        std::min(parse_duration(arguments.budget, "--budget"), kYear));
    sweep.limits.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(budget);
  }
  return sweep;
}

// Returns what is to be borne in mind of it; empty: nothing.
std::string check_given(const Sweep& sweep, const std::string& file, const RecipeWords& words,
                        const Planned& planned) {
  if (!sweep.machine) return "";
  try {
    for (const std::int64_t workers : sweep.workers)
      plan::communication_seconds(sweep.machine->communication, workers);
  } catch (const UsageError& error) {
    throw UsageError("--machine " + file + ": " + error.what());
  }
  return check_described(*sweep.machine, file, words, planned.recipe);
}

// That of an answer of before, which `convoy train --plan` would take.
void remove_plan_file(const std::string& file) {
  std::error_code not_there;
  if (!std::filesystem::exists(file, not_there)) return;
  if (read_text_file(file).starts_with(kPlanMark)) std::filesystem::remove(file, not_there);
}

PlanFile plan_file_of(const Answers& answers, const Planned& planned, const Sweep& sweep,
                      const std::vector<std::string>& overrides) {
  const LevelAnswer& hardest = answers.levels.back();
  PlanFile file{planned.recipe.name, answers.metric, hardest.level, {}};
  file.measured = {sweep.machine ? sweep.machine->name : sweep.workplace.name(),
                   sweep.machine ? 0 : planned.recipe.threads,
                   planned.counts_samples ? planned.samples : 0, overrides,
                   compared_part(planned.recipe)};
  for (const plan::BatchChoice& choice : hardest.choices) {
    file.workers.push_back(
        {choice.workers, choice.batch, choice.learning_rate, choice.seconds.value,
         plan::contention_part(answers.machine.machine.machine, choice.workers)});
  }
  return file;
}

std::string lines_text(const std::vector<Answers::Without>& lines) {
  std::string text;
  for (const Answers::Without& line : lines) text += (text.empty() ? "" : "\n") + line.why;
  return text;
}

// How far runs came, where no level has an answer.
std::string how_far(const PlanFolder& folder, const Goal& goal) {
  const Closest closest = closest_run(folder.path(), goal);
  if (!closest.found) return "";
  return "\nthe best " + goal.metric + " of any run was " + short_text(closest.value) +
         ", with batch " + std::to_string(closest.batch) + " and rate " +
         shortest(closest.learning_rate) + " after " + std::to_string(closest.updates) +
         " updates; --resume with a larger --longest EPOCHS lets runs go on, --rates and --target "
         "choose others";
}

std::string out_of_time(const Sweep& sweep) {
  if (!is_late(sweep.limits.deadline)) return "";
  return "\nthe budget ended before there was enough for an answer: --resume with another --budget "
         "goes on";
}

// An answer without pictures is an answer all the same.
void write_report(const PlanReport& report, const std::string& file, std::FILE* out) {
  try {
    write_file_atomically(file, make_plan_report(report));
    std::fprintf(out, "\nreport: %s\n", file.c_str());
  } catch (const Failure& failure) {
    std::fprintf(out, "\nno report: %s\n", failure.what());
  }
}

Answers answered(const plan::PlanPoints& points, const Sweep& sweep, const Planned& planned) {
  try {
    return answer(points, machine_of(sweep, points), sweep.workers, planned.samples);
  } catch (const UsageError& error) {  // there are too few times
    throw UsageError(error.what() + out_of_time(sweep));
  }
}

void warn_of(const FailedBatches& failed, Answers& answers) {
  for (const auto& [batch, why] : failed.why)
    add_warning(answers, 1, "batch " + std::to_string(batch) + " was left out: " + why);
}

// Updates were counted on one worker.
void warn_of_shares(const train::Recipe& recipe, Answers& answers) {
  const bool several =
      std::any_of(answers.levels.begin(), answers.levels.end(),
                  [](const LevelAnswer& level) { return level.choices.back().workers > 1; });
  if (!several || !normalizes_shares(recipe)) return;
  add_warning(answers, 2,
              "the network normalizes over batches, and each of several workers over its share "
              "alone (" +
                  recipe.strategy +
                  ".batch_norm is \"local\"): updates of one worker with "
                  "the whole batch are predicted; --set " +
                  recipe.strategy +
                  ".batch_norm=synchronized makes them the same, `convoy plan check` says how far "
                  "they differ");
}

// The law takes every update for one of a whole batch.
void warn_of_rests(const Planned& planned, Answers& answers) {
  constexpr double kMuch = 0.95;
  if (!planned.counts_samples || planned.recipe.data.drop_last || answers.levels.empty()) return;
  std::string batches;
  for (const plan::EnvelopePoint& point : answers.levels.back().updates.envelope) {
    const double mean = mean_batch(planned.samples, point.batch);
    if (point.reached == 0 || mean >= kMuch * static_cast<double>(point.batch)) continue;
    const bool to_the_end =
        point.updates * static_cast<double>(point.batch) >= static_cast<double>(planned.samples);
    if (!to_the_end) continue;  // of the first epoch
    batches += (batches.empty() ? "" : ", ") + std::to_string(point.batch) + " (on average as " +
               std::to_string(std::llround(mean)) + ")";
  }
  if (batches.empty()) return;
  add_warning(answers, 1,
              "the last batch of each epoch is smaller, which the law does not know of: updates "
              "with batch " +
                  batches +
                  " are taken for whole ones; --set data.drop_last=true "
                  "leaves such rests out");
}

// As --hosts takes them, for the number of workers that is soonest; empty: here.
std::string hosts_of(const Answers& answers, const Sweep& sweep) {
  const std::vector<HostSlots>& hosts = sweep.workplace.hosts;
  if (hosts.empty()) return "";
  const std::int64_t workers = soonest(answers.levels.back()).workers;
  const int most = sweep.workplace.most();  // more than these have no place yet
  return format_hosts(first_slots(hosts, static_cast<int>(std::min<std::int64_t>(workers, most))));
}

// Not over the user's own description, which may stand there.
void write_machine(const Answers& answers, const Sweep& sweep, const std::string& model,
                   const std::string& given, const std::string& file) {
  plan::Machine machine = answers.machine.machine.machine;
  if (sweep.machine) {
    machine.source = "given";  // whoever measured it, the times in the folder are others
  } else {
    machine.name = sweep.workplace.name();
    machine.model = model;
  }
  std::error_code not_there;
  if (!std::filesystem::equivalent(given, file, not_there))
    write_file_atomically(file, kMachineMark.data() + plan::to_toml(machine));
}

int run_batch(const BatchArguments& arguments) {
  Rows rows(arguments.json);
  std::FILE* out = rows.on_standard_output() ? stderr : stdout;
  const Planned planned = open_planned(arguments.recipe, arguments.goal);
  const Sweep sweep = sweep_of(arguments, planned);
  const std::string described = check_given(sweep, arguments.machine, arguments.recipe, planned);
  PlanFolder folder(arguments.folder, planned, arguments.resume);
  catch_stop_signals();
  FailedBatches failed;
  try {
    failed = measure(planned, sweep, folder, out);
  } catch (const PlanStopped&) {
    std::fprintf(out, "stopped; to go on, add --resume to the same command\n");
    return kExitRequeue;
  }
  const plan::PlanPoints points = points_of(sweep, folder.points());
  Answers answers = answered(points, sweep, planned);
  warn_of(failed, answers);
  if (!described.empty()) add_warning(answers, 2, described);
  if (const std::string unlike = warning_of_hosts(sweep, points); !sweep.machine && !unlike.empty())
    add_warning(answers, 2, unlike);
  warn_of_shares(planned.recipe, answers);
  warn_of_rests(planned, answers);
  if (answers.levels.empty()) {
    remove_plan_file(folder.file("plan.toml"));
    add_rows(answers, "", rows);
    throw UsageError(lines_text(answers.without) + how_far(folder, planned.goal) +
                     out_of_time(sweep));
  }
  const PlanFile file = plan_file_of(answers, planned, sweep, arguments.recipe.overrides);
  const std::string command =
      training_command(file, soonest(answers.levels.back()).workers, arguments.recipe.path,
                       folder.file("plan.toml"), hosts_of(answers, sweep));
  add_rows(answers, command, rows);
  print(answers, out);
  write_report({planned.recipe.name, points, answers, planned.samples}, folder.file("report.html"),
               out);
  write_machine(answers, sweep, planned.recipe.model.name, arguments.machine,
                folder.file("machine.toml"));
  write_file_atomically(folder.file("plan.toml"), to_toml(file));
  std::fprintf(out, "\n%s\nto train so: %s\n", answer_text(answers).c_str(), command.c_str());
  return 0;
}

void add_options(CLI::App& command, BatchArguments& a) {
  add_recipe_options(command, a.recipe);
  command.add_option("--target", a.goal.target, "What is to be reached: loss=0.1, top1=0.99")
      ->type_name("METRIC=LEVEL");
  command.add_option("--targets", a.goal.targets, "Several levels: 0.3,0.1; runs end at the last")
      ->type_name("LIST");
  command
      .add_option("--metric", a.goal.metric,
                  "What --targets are of (loss, on validation data); train_loss: on a fixed random "
                  "part of the training data")
      ->type_name("NAME");
  command
      .add_option(
          "--batches", a.batches,
          "Mini-batches to train with (16,64,256,1024, and smaller ones where these are best)")
      ->type_name("LIST");
  command
      .add_option("--rates", a.rates,
                  "Learning rates, each tried with each batch (the recipe's times 1/2, 1, 2)")
      ->type_name("LIST");
  command.add_option("--seeds", a.seeds, "Runs of each batch and rate")
      ->check(positive_integer())
      ->capture_default_str();
  command
      .add_option("--workers", a.workers,
                  "Numbers of workers to plan for (1,2,4,... cores, or slots of --hosts)")
      ->type_name("LIST");
  command
      .add_option("--time", a.timed, "Batches of one worker whose updates are timed (1,4,16,...)")
      ->type_name("LIST");
  add_host_options(command, a.hosts);
  // One says nothing of how much times scatter.
  command
      .add_option("--repetitions", a.repetitions, "Times that each of them is timed (at least 2)")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command
      .add_option("--machine", a.machine,
                  "A description of the machine instead of times measured here (docs/planning.md)")
      ->type_name("FILE");
  command
      .add_option("--jobs", a.jobs,
                  "Trainings to the target at a time, at most (one on each core, or each GPU)")
      ->type_name("N")
      ->check(positive_integer());
  command
      .add_option(
          "--most-samples", a.most_samples,
          "Samples that the memory of a worker holds: no batch that is recommended gives it "
          "more (no limit)")
      ->type_name("N")
      ->check(positive_integer());
  command
      .add_option(
          "--budget", a.budget,
          "How long to measure, as 30m: one run of each batch and rate, the largest and the "
          "smallest batch first, and then what narrows the answer most, instead of --seeds")
      ->type_name("TIME");
  command
      .add_option("--longest", a.longest,
                  "When a run is given up, in epochs (four times as long as the recipe)")
      ->type_name("EPOCHS")
      ->check(positive_number());
  command
      .add_option("--every", a.every,
                  "Updates between evaluations (so many that they take a third of the time)")
      ->check(positive_integer())
      ->type_name("N");
  command.add_option("--folder", a.folder, "Where points and answers are kept")
      ->type_name("DIR")
      ->capture_default_str()
      ->check(writes_folder(kPlanFolder));
  command.add_flag("--resume", a.resume,
                   "Go on with the points in the folder; runs that a budget or a smaller --longest "
                   "stopped are made again");
  command.add_option("--json", a.json, "The answers as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
}

}  // namespace

void add_plan_batch_command(CLI::App& plan, Outcome& outcome) {
  auto arguments = std::make_shared<BatchArguments>();
  CLI::App* command = plan.add_subcommand("batch", kBatchDescription);
  add_options(*command, *arguments);
  command->callback([arguments, &outcome] { outcome.exit_status = run_batch(*arguments); });
}

}  // namespace convoy::cli
