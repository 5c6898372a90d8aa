#include "cli/bench/operators/operators.h"

#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/median.h"
#include "cli/bench/operators/limits.h"
#include "cli/bench/operators/observer.h"
#include "cli/bench/operators/report.h"
#include "cli/bench/step_recipe.h"
#include "cli/checks.h"
#include "cli/launch/again.h"
#include "cli/rows.h"
#include "cli/training/set_option.h"
#include "cli/writes.h"
#include "convoy/base/clock.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/comm/threads.h"
#include "convoy/comm/world.h"
#include "convoy/model/factory.h"
#include "convoy/optim/rule.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/rehearsal.h"

namespace convoy::cli {
namespace operators {
namespace {

constexpr std::int64_t kUsualImages = 8;

struct OperatorsOptions {
  std::string model = "resnet50";  // or a recipe's file
  std::int64_t batch = 0;          // 0: the recipe's, or kUsualImages
  int threads = 0;                 // 0: the recipe's, or one for each core
  int repetitions = 5;
  int steps = 2;
  int warm_up = 2;
  double seconds = 0.5;
  std::string array = "256MiB";
  bool layers = false;
  std::vector<std::string> overrides;
  std::string json;
};

// Trains alone, in a world of its own.
class Training {
 public:
  Training(const train::Recipe& recipe, const train::Registry& registry)
      : world_(std::move(comm::thread_transports(1).front()), {}),
        rehearsal_(std::in_place, world_, registry, recipe) {}
  ~Training() {
    rehearsal_.reset();
    world_.close();
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  train::StepReport make_update() { return rehearsal_->make_updates(1).front(); }
  train::Rehearsal& rehearsal() { return *rehearsal_; }

 private:
  comm::World world_;
  std::optional<train::Rehearsal> rehearsal_;
};

train::Recipe recipe_of(const OperatorsOptions& o, train::Registry& registry) {
  std::vector<std::string> overrides;
  if (o.threads > 0) overrides.push_back("threads=" + std::to_string(o.threads));
  if (o.model.ends_with(".toml")) {
    if (o.batch > 0) overrides.push_back("training.batch=" + std::to_string(o.batch));
    overrides.insert(overrides.end(), o.overrides.begin(), o.overrides.end());
    const train::RecipeText text = train::read_recipe_file(o.model);
    registry.load_plugins(train::plugins_of(text, overrides));
    return train::parse_recipe(text, overrides, registry.vocabulary());
  }
  model::check_model_name(o.model);
  StepWords words;
  words.model = o.model;
  words.batch = o.batch > 0 ? o.batch : kUsualImages;
  words.overrides = std::move(overrides);
  words.overrides.insert(words.overrides.end(), o.overrides.begin(), o.overrides.end());
  return step_recipe(words, 1, registry);
}

// The limits are those of one process, its cores and float32.
void check_recipe(const train::Recipe& recipe) {
  const auto refuse = [](const std::string& key, const std::string& value,
                         const std::string& wanted) {
    throw UsageError(key + " is " + value + "; operators are measured against the limits of " +
                     wanted);
  };
  if (recipe.automatic() || recipe.strategy != "sync")
    refuse("strategy", recipe.automatic() ? "auto" : recipe.strategy, "one process: set sync");
  if (recipe.device != "cpu") refuse("device", recipe.device, "this machine's cores: set cpu");
  if (recipe.precision != "float32")
    refuse("precision", recipe.precision, "float32 arithmetic: set float32");
  const std::int64_t devices = recipe.strategy_options.integer("devices");
  if (devices > 1) refuse("sync.devices", std::to_string(devices), "one team of threads: set 1");
}

// Weights, gradients and state are read, weights and state written.
std::int64_t update_bytes(const train::Recipe& recipe, const torch::nn::Module& network) {
  std::int64_t slots = 0;
  if (train::has_rule(recipe.optimizer)) {
    slots = static_cast<std::int64_t>(optim::slots(train::optimizer_rule(recipe.optimizer)).size());
  }
  std::int64_t bytes = 0;
  for (const torch::Tensor& parameter : network.parameters()) {
    if (parameter.requires_grad())
      bytes += (3 + 2 * slots) * static_cast<std::int64_t>(parameter.nbytes());
  }
  return bytes;
}

double plain_steps(Training& training, int steps) {
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    training.make_update();
    seconds.push_back(seconds_since(start));
  }
  return median(seconds);
}

void observe_steps(Training& training, int steps, std::vector<ObservedStep>& observed) {
  Observer observer;
  for (int i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    const train::StepReport report = training.make_update();
    ObservedStep step;
    step.seconds = seconds_since(start);
    step.calls = observer.take();
    step.phases = {report.forward_s, report.backward_s, report.update_s};
    observed.push_back(std::move(step));
  }
}

Findings measure_operators(const OperatorsOptions& o, const train::Recipe& recipe,
                           const train::Registry& registry) {
  Training training(recipe, registry);
  Findings found;
  found.model = recipe.model.name;
  found.batch = recipe.training.batch;
  found.threads = at::get_num_threads();
  found.channels_last = recipe.model.channels_last;
  found.steps = o.steps;
  found.update_bytes = update_bytes(recipe, training.rehearsal().strategy().module());
  plain_steps(training, o.warm_up);
  std::fprintf(stderr, "operators: looking for the fastest products and convolutions\n");
  LimitMeter meter(parse_bytes(o.array), o.seconds);
  found.product = meter.product();
  found.convolution = meter.convolution();
  found.trials = meter.trials();
  for (int i = 0; i < o.repetitions; ++i) {
    std::fprintf(stderr, "operators: repetition %d of %d\n", i + 1, o.repetitions);
    Repetition repetition;
    repetition.limits = meter.measure();
    plain_steps(training, 1);  // what the limits have put out of the caches comes back
    // Turns change places, so that neither always runs on the warmer machine.
    if (i % 2 == 1) observe_steps(training, o.steps, found.observed);
    repetition.step_s = plain_steps(training, o.steps);
    if (i % 2 == 0) observe_steps(training, o.steps, found.observed);
    found.repetitions.push_back(repetition);
  }
  return found;
}

void run_operators(const OperatorsOptions& o) {
  if (is_a_rank()) {
    throw UsageError(
        "this measures one process by itself: start it without mpirun, srun and `convoy run`");
  }
  // An array of nothing has no bandwidth.
  constexpr std::uint64_t kLeastArray = 1 << 20;
  if (parse_bytes(o.array) < kLeastArray)
    throw UsageError("--array is " + o.array + "; it takes 1MiB at least");
  train::Registry registry;
  add_made_up_images(registry);
  const train::Recipe recipe = recipe_of(o, registry);
  check_recipe(recipe);
  Rows rows(o.json);
  report(measure_operators(o, recipe, registry), o.layers, rows);
}

}  // namespace
}  // namespace operators

void add_operators_command(CLI::App& bench) {
  const auto options = std::make_shared<operators::OperatorsOptions>();
  CLI::App* command = bench.add_subcommand(
      "operators",
      "Where a training step's time goes, operator by operator, against what this machine's cores "
      "and memory reach");
  std::string models;
  for (const std::string& name : model::model_names())
    models += (models.empty() ? "" : ", ") + name;
  command
      ->add_option("--model", options->model,
                   "A recipe's file, with its data and plugins, or a network: " + models)
      ->type_name("RECIPE.toml|MODEL")
      ->capture_default_str();
  command->add_option("--batch", options->batch, "Images per step (8, or the recipe's)")
      ->check(positive_integer());
  command->add_option("--threads", options->threads, "Threads (the recipe's, or one per core)")
      ->check(positive_integer());
  add_set_option(*command, options->overrides);
  command->add_flag("--layers", options->layers, "Operators of each shape, too");
  command
      ->add_option("--repetitions", options->repetitions,
                   "Times that limits, steps, and steps that are observed take turns")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps of each turn")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--warmup", options->warm_up, "Steps before the first turn")
      ->check(positive_integer())
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long each limit is measured in a turn")
      ->check(positive_number())
      ->capture_default_str();
  command
      ->add_option("--array", options->array,
                   "Size of the three arrays whose traffic is measured: much more than the caches")
      ->capture_default_str();
  command
      ->add_option("--json", options->json,
                   "One JSON object per row to this file, '-' for standard output")
      ->check(writes_file(kTableFile));
  command->callback([options] { operators::run_operators(*options); });
}

}  // namespace convoy::cli
