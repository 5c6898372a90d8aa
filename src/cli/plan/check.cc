// convoy plan check: whether a plan's predictions are right.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/toml_text.h"
#include "cli/checks.h"
#include "cli/launch/report.h"
#include "cli/plan/check_rules.h"
#include "cli/plan/check_table.h"
#include "cli/plan/checks_file.h"
#include "cli/plan/measure.h"
#include "cli/plan/measured.h"
#include "cli/plan/numbers.h"
#include "cli/plan/runs.h"
#include "cli/plan/subcommands.h"
#include "cli/plan/trial.h"
#include "cli/plan/workplace.h"
#include "cli/rows.h"
#include "cli/training/signals.h"
#include "cli/writes.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

constexpr const char* kCheckDescription =
    "Train as a measured plan says, and as other rules do, and compare (docs/planning.md)\n"
    "Says how many updates and how long each took to the target, and what was predicted. Killed or "
    "stopped\n"
    "anywhere, --resume repeats no finished training.";

constexpr const char* kRulesHelp =
    "Which batches (quarter,optimal,four): the best one, a quarter of it, four times as much; "
    "strong: the best of one worker; weak: that for each worker; linear: the same with so many "
    "times its learning rate; noise: --noise-batch";

constexpr std::uint64_t kSeeds = 1000;  // seeds above it are new to a plan

struct CheckArguments {
  MeasuredWords measured;
  HostWords hosts;
  std::string rules = "quarter,optimal,four";
  int noise_batch = 0;
  int workers = 1;
  int seeds = 3;
  double longest = 0;
  bool resume = false;
  std::string json;
};

class Checker {
 public:
  Checker(const Measured& measured, const CheckArguments& arguments, const Workplace& workplace,
          std::FILE* out)
      : measured_(measured),
        arguments_(arguments),
        out_(out),
        workplace_(workplace),
        file_(arguments.measured.folder + "/checks.jsonl", header(), arguments.resume),
        folders_(arguments.measured.folder) {}

  // From the file, or by training.
  CheckedTraining train(const Checked& what, std::uint64_t seed) {
    CheckedTraining training{.workers = arguments_.workers,
                             .batch = what.batch,
                             .learning_rate = what.learning_rate,
                             .seed = seed,
                             .machine = workplace_.name(arguments_.workers)};
    const Planned& planned = measured_.planned;
    const double epochs = arguments_.longest > 0 ? arguments_.longest : 4 * planned.epochs;
    const std::int64_t longest = updates_in(epochs, planned.samples, what.batch);
    if (const CheckedTraining* known = file_.find(training, longest)) return *known;
    run_check(what, longest, training);
    file_.add(training);
    tell(what.rule, training);
    return training;
  }

 private:
  ChecksHeader header() const {
    const Planned& planned = measured_.planned;
    return {planned.fingerprint, planned.goal.metric, measured_.level(), workplace_.name()};
  }

  void run_check(const Checked& what, std::int64_t longest, CheckedTraining& training) {
    const Planned& planned = measured_.planned;
    std::int64_t every = planned.usual_interval(what.batch);
    constexpr double kEvaluations = 10;  // at least, until the target
    if (what.updates)
      every = std::clamp<std::int64_t>(std::llround(*what.updates / kEvaluations), 1, every);
    Trial trial(planned.run(what.batch, what.learning_rate, training.seed, every, longest),
                folders_.fresh(), workplace_.place(arguments_.workers), planned.goal.of_task);
    while (trial.poll()) {
      training.diverged = training.diverged || is_leaving(trial.metrics().updates());
      if (training.diverged) trial.stop();
      wait_a_little();
    }
    training.diverged = training.diverged || trial.diverged();
    if (!trial.good() && !training.diverged)
      throw Failure("training with batch " + std::to_string(what.batch) +
                    " failed: " + trial.complaint());
    const auto& updates = trial.metrics().updates();
    if (updates.empty()) return;
    const auto reached = reached_levels(planned.goal, trial.metrics().curve());
    training.reached = !reached.empty();
    training.updates = training.reached ? reached.front().second : updates.back().step;
    const std::int64_t counted = planned.counts_samples ? what.batch : 0;
    training.seconds = seconds_until(updates, training.updates, counted);
    training.update_s = mean_update_s(updates, counted);
  }

  void tell(const std::string& rule, const CheckedTraining& t) const {
    std::fprintf(out_, "%s, batch %lld, rate %s, seed %llu: %s %lld updates, %s\n", rule.c_str(),
                 static_cast<long long>(t.batch), shortest(t.learning_rate).c_str(),
                 static_cast<unsigned long long>(t.seed),
                 t.reached    ? "reached after"
                 : t.diverged ? "diverged after"
                              : "not reached in",
                 static_cast<long long>(t.updates), format_seconds(t.seconds).c_str());
    std::fflush(out_);
  }

  const Measured& measured_;
  const CheckArguments& arguments_;
  std::FILE* out_;
  const Workplace& workplace_;
  ChecksFile file_;
  TrialFolders folders_;
};

CheckList list(const CheckArguments& arguments, const Measured& measured) {
  const std::vector<std::string> rules = parse_rules(arguments.rules);
  const bool noise = std::find(rules.begin(), rules.end(), "noise") != rules.end();
  if (noise != (arguments.noise_batch > 0)) {
    throw UsageError(noise ? "--rules noise needs --noise-batch N, the batch that noise speaks for"
                           : "--noise-batch is that of --rules noise; add it there");
  }
  return list_checks(rules, measured.updates, measured.with_draws(),
                     {arguments.workers, measured.planned.samples, arguments.noise_batch});
}

// Of all rules with one seed before the next: what disturbs the machine for a while disturbs all.
std::vector<CheckedRule> train_all(const std::vector<Checked>& checked, int seeds,
                                   Checker& checker) {
  std::vector<std::vector<CheckedTraining>> trainings(checked.size());
  for (int seed = 1; seed <= seeds; ++seed) {
    for (std::size_t i = 0; i < checked.size(); ++i)
      trainings[i].push_back(checker.train(checked[i], kSeeds + static_cast<std::uint64_t>(seed)));
  }
  std::vector<CheckedRule> rules;
  for (std::size_t i = 0; i < checked.size(); ++i)
    rules.push_back({checked[i], outcome_of(trainings[i])});
  return rules;
}

// Seconds are predicted for the machine that was timed.
void warn_of_another_machine(const std::string& timed, const Workplace& here, Rows& rows,
                             std::FILE* out) {
  if (here.is(timed)) return;
  std::fprintf(out,
               "warning: predicted seconds are those of another machine, %s, and trainings are on "
               "%s: only updates can be compared; give the --hosts of `convoy plan batch`, or time "
               "this machine with `convoy plan batch --resume`\n",
               timed.c_str(), here.name().c_str());
  rows.add({{"kind", "other_machine"}, {"predicted_for", timed}, {"trained_on", here.name()}});
}

int run_check(const CheckArguments& arguments) {
  Rows rows(arguments.json);
  std::FILE* out = rows.on_standard_output() ? stderr : stdout;
  const Measured measured = open_measured(arguments.measured);
  const Workplace workplace = Workplace::of(arguments.hosts, measured.planned.gpus,
                                            static_cast<int>(measured.planned.recipe.threads));
  if (arguments.workers > workplace.most()) {
    throw UsageError("--workers " + std::to_string(arguments.workers) + ": there is room for " +
                     std::to_string(workplace.most()) + " on " + workplace.name());
  }
  check_communication(measured, arguments.workers);
  CheckList all = list(arguments, measured);
  // Of another machine's seconds there is no verdict.
  if (!workplace.is(measured.machine.name)) {
    for (Checked& checked : all.checked) checked.range.reset();
  }
  if (all.checked.empty()) {
    std::string why;
    for (const auto& [rule, reason] : all.left_out) why += "; " + rule + ": " + reason;
    throw UsageError("--rules: there is nothing to train" + why);
  }
  for (const auto* warnings : {&measured.updates.warnings, &measured.warnings}) {
    for (const std::string& warning : *warnings)
      std::fprintf(out, "warning: %s\n", warning.c_str());
  }
  warn_of_another_machine(measured.machine.name, workplace, rows, out);
  catch_stop_signals();
  try {
    Checker checker(measured, arguments, workplace, out);
    const std::vector<CheckedRule> rules = train_all(all.checked, arguments.seeds, checker);
    const CheckedGoal goal{measured.planned.goal.metric, measured.level(), arguments.workers};
    print_checks(rules, all.left_out, out);
    std::fprintf(out, "\n%s", verdict_text(rules, goal).c_str());
    add_rows(rules, all.left_out, goal, rows);
  } catch (const PlanStopped&) {
    std::fprintf(out, "stopped; to go on, add --resume to the same command\n");
    return kExitRequeue;
  }
  return 0;
}

}  // namespace

void add_plan_check_command(CLI::App& plan, Outcome& outcome) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = plan.add_subcommand("check", kCheckDescription);
  add_measured_options(*command, arguments->measured);
  command->add_option("--rules", arguments->rules, kRulesHelp)->type_name("LIST");
  command->add_option("--noise-batch", arguments->noise_batch, "The batch of the rule noise")
      ->type_name("N")
      ->check(positive_integer());
  command->add_option("--workers", arguments->workers, "Workers to train with")
      ->type_name("P")
      ->check(positive_integer())
      ->capture_default_str();
  add_host_options(*command, arguments->hosts);
  command->add_option("--seeds", arguments->seeds, "Trainings with each batch, with new seeds")
      ->check(positive_integer())
      ->capture_default_str();
  command
      ->add_option("--longest", arguments->longest,
                   "When a run is given up, in epochs (four times as long as the recipe)")
      ->type_name("EPOCHS")
      ->check(positive_number());
  command->add_flag("--resume", arguments->resume,
                    "Go on with the trainings of earlier checks in the folder");
  command->add_option("--json", arguments->json, "The table as JSON ('-': standard output)")
      ->type_name("FILE")
      ->check(writes_file(kTableFile));
  command->callback([arguments, &outcome] { outcome.exit_status = run_check(*arguments); });
}

}  // namespace convoy::cli
