#include "train/strategies/sandblaster/options.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/toml_text.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"
#include "convoy/train/sandblaster.h"
#include "train/strategies/key_checker.h"
#include "train/strategies/server_keys.h"

namespace convoy::train {
namespace {

using Methods = std::vector<std::string>;

const Methods kBatchMethods{"lbfgs", "conjugate_gradient", "gradient_descent"};
constexpr std::int64_t kMostInGroup = 256;
// Losses that differ by less, relative, are taken for equal (optim::LineSearchOptions).
constexpr double kLossErrorOfDoubles = 1e-14;
constexpr double kLossErrorOfFloats = 1e-6;

std::uint8_t level_of(std::int64_t group) {
  return static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(group)) - 1);
}

optim::BatchMethod method_of(const std::string& name) {
  const auto at = std::find(kBatchMethods.begin(), kBatchMethods.end(), name);
  return static_cast<optim::BatchMethod>(at - kBatchMethods.begin());
}

// "lr, groups": what of the table is not as it is where nobody says anything.
std::string chosen_keys(const OptimizerRecipe& o) {
  const OptimizerRecipe usual;
  std::vector<std::pair<std::string, bool>> keys{{"name", o.name != usual.name},
                                                 {"lr", o.lr != usual.lr}};
  for (const Option& option : o.options.specification())
    keys.emplace_back(option.key, o.options.value(option.key) != option.initial);
  keys.emplace_back("weight_decay", o.weight_decay != usual.weight_decay);
  keys.emplace_back("groups", !o.groups.empty());
  std::string text;
  for (const auto& [key, chosen] : keys) {
    if (chosen) text += (text.empty() ? "optimizer." : ", ") + key;
  }
  return text;
}

// The usual schedule has no keys of its own.
bool is_usual(const ScheduleRecipe& s) {
  const ScheduleRecipe usual;
  return s.name == usual.name && s.warmup == usual.warmup;
}

// What a method that looks at the whole batch, and finds the length of its steps itself, has no use
// for: silently, the training would be another one than the recipe says.
void check_what_has_no_use(const Recipe& recipe, KeyChecker& c) {
  const std::string optimizer = chosen_keys(recipe.optimizer);
  const bool decay =
      recipe.optimizer.weight_decay != 0 || optimizer.find("groups") != std::string::npos;
  c.expect(optimizer.empty(),
           optimizer +
               ": with sandblaster the method (sandblaster.method) makes the updates, and " +
               "finds how long its steps are; leave [optimizer] out" +
               (decay ? " (sandblaster.l2 keeps weights small)" : ""));
  c.expect(is_usual(recipe.schedule),
           "schedule: with sandblaster there is no learning rate; leave [schedule] out");
  c.expect(recipe.training.clip_norm == 0,
           "training.clip_norm is " + shortest(recipe.training.clip_norm) +
               "; with sandblaster a line search finds the length of each step: leave it out");
  c.expect(
      recipe.data.shuffle_every_epochs == 1 && recipe.data.shuffle_every_steps == 0,
      "data.shuffle_every_epochs and shuffle_every_steps: with sandblaster all evaluations are "
      "of the same order; leave them out");
  c.expect(!recipe.data.drop_last,
           "data.drop_last is true; with sandblaster every evaluation is of all samples");
  c.expect(recipe.precision != "bfloat16",
           "precision is bfloat16; a line search compares losses, which need float32 or float64");
}

void check_portions(const SandblasterRecipe& s, KeyChecker& c) {
  c.within("portion", s.portion, 0, std::numeric_limits<std::int32_t>::max());
  const bool power = s.largest_group >= 1 && s.largest_group <= kMostInGroup &&
                     std::has_single_bit(static_cast<std::uint64_t>(s.largest_group));
  c.expect(power, c.key("largest_group") + " is " + std::to_string(s.largest_group) +
                      "; it has to be 1, 2, 4, 8, 16, 32, 64, 128 or 256");
}

void check_method(const SandblasterRecipe& s, KeyChecker& c) {
  c.one_of("method", s.method, kBatchMethods);
  const std::string most = std::to_string(server::kLongestHistory);
  const bool of_before = s.history > server::kLongestHistory && s.history <= optim::kMostHistory;
  c.expect(
      s.history >= 1 && s.history <= server::kLongestHistory,
      c.key("history") + " is " + std::to_string(s.history) + "; it has to be 1 to " + most +
          (of_before ? " (what is known of more steps fits into no message to the coordinator; "
                       "a run that was begun with more goes on with --set " +
                           c.key("history") + "=" + most + ")"
                     : ""));
  c.within("patience", s.patience, 1, 1'000'000);
  c.within("search_evaluations", s.search_evaluations, 1, 1000);
  const auto at_least_0 = [&c](const char* name, double value) {
    c.expect(value >= 0 && std::isfinite(value),
             c.key(name) + " is " + shortest(value) + "; it can't be negative or infinite");
  };
  at_least_0("l2", s.l2);
  at_least_0("gradient_norm", s.gradient_norm);
  c.expect(s.progress >= 0 && s.progress < 1,
           c.key("progress") + " is " + shortest(s.progress) + "; it has to be from 0 to below 1");
  c.expect(s.damping >= 0 && s.damping < 1,
           c.key("damping") + " is " + shortest(s.damping) + "; it has to be from 0 to below 1");
  c.expect(
      s.loss_error >= 0 && s.loss_error < 1,
      c.key("loss_error") + " is " + shortest(s.loss_error) + "; it has to be from 0 to below 1");
  c.expect(s.decrease > 0 && s.decrease < 0.5, c.key("decrease") + " is " + shortest(s.decrease) +
                                                   "; it has to be above 0 and below 1/2");
  c.expect(s.curvature > s.decrease && s.curvature < 1,
           c.key("curvature") + " is " + shortest(s.curvature) + "; it has to be above " +
               c.key("decrease") + ", which is " + shortest(s.decrease) + ", and below 1");
}

}  // namespace

std::vector<Option> sandblaster_keys() {
  const SandblasterRecipe s;
  return with_server_keys(
      {{"method", s.method, "lbfgs, conjugate_gradient or gradient_descent"},
       {"history", s.history, "steps, and changes of the gradient, that lbfgs remembers"},
       {"portion", s.portion, "samples that are handed out as one; 0: training.batch"},
       {"largest_group", s.largest_group,
        "portions that are handed out at once, at most: 1, 2, 4, ..., 256"},
       {"copies", s.copies, "what is late is handed out to a second replica, too"},
       {"l2", s.l2, "times half the square of all weights is added to the loss"},
       {"damping", s.damping,
        "lbfgs: changes of the gradient are moved until they have so much of the curvature that "
        "the "
        "one before had; 0: never"},
       {"decrease", s.decrease,
        "a step lowers the loss by so much of what its slope promises, at least"},
       {"curvature", s.curvature, "and leaves a slope of no more than so much of it"},
       {"search_evaluations", s.search_evaluations, "of one line search, at most"},
       {"loss_error", s.loss_error,
        "losses that differ by no more than this part of them are taken for equal; 0: 1e-14, with "
        "float32 1e-6"},
       {"gradient_norm", s.gradient_norm, "training ends when the gradient is no longer than this"},
       {"progress", s.progress, "or when the loss falls by no more than this part of it"},
       {"patience", s.patience, "in so many iterations, one after the other"}});
}

SandblasterRecipe sandblaster_of(const Recipe& recipe) {
  const Options& o = recipe.strategy_options;
  SandblasterRecipe s;
  static_cast<ServerJobRecipe&>(s) = server_job_of(recipe);
  s.method = o.text("method");
  s.history = o.integer("history");
  s.portion = o.integer("portion");
  s.largest_group = o.integer("largest_group");
  s.copies = o.flag("copies");
  s.l2 = o.number("l2");
  s.damping = o.number("damping");
  s.decrease = o.number("decrease");
  s.curvature = o.number("curvature");
  s.search_evaluations = o.integer("search_evaluations");
  s.loss_error = o.number("loss_error");
  s.gradient_norm = o.number("gradient_norm");
  s.progress = o.number("progress");
  s.patience = o.integer("patience");
  return s;
}

void check_sandblaster(const Recipe& recipe, std::vector<std::string>& problems) {
  const SandblasterRecipe s = sandblaster_of(recipe);
  check_server_keys(recipe, problems);
  KeyChecker c(kSandblaster, problems);
  check_method(s, c);
  check_portions(s, c);
  check_what_has_no_use(recipe, c);
}

optim::BatchOptions batch_options(const Recipe& recipe) {
  const SandblasterRecipe s = sandblaster_of(recipe);
  const bool floats = batch_element(recipe) == server::Element::f32;
  optim::BatchOptions options;
  options.method = method_of(s.method);
  options.history = static_cast<int>(s.history);
  options.damping = s.damping;
  options.gradient_norm = s.gradient_norm;
  options.progress = s.progress;
  options.patience = static_cast<int>(s.patience);
  options.line_search.decrease = s.decrease;
  options.line_search.curvature = s.curvature;
  options.line_search.evaluations = static_cast<int>(s.search_evaluations);
  options.line_search.loss_error = s.loss_error > 0 ? s.loss_error
                                   : floats         ? kLossErrorOfFloats
                                                    : kLossErrorOfDoubles;
  return options;
}

std::int64_t batch_iterations(const Recipe& recipe) {
  return recipe.training.steps > 0 ? recipe.training.steps : recipe.training.epochs;
}

std::uint64_t portion_samples(const Recipe& recipe) {
  const std::int64_t portion = recipe.strategy_options.integer("portion");
  return static_cast<std::uint64_t>(portion > 0 ? portion : recipe.training.batch);
}

std::uint8_t largest_group_level(const Recipe& recipe) {
  return level_of(recipe.strategy_options.integer("largest_group"));
}

server::Element batch_element(const Recipe& recipe) {
  return recipe.precision == "float64" ? server::Element::f64 : server::Element::f32;
}

server::JobPlan batch_plan(const Recipe& recipe, const Manifest*) {
  server::JobPlan plan = plan_of_servers(recipe);
  // The ledger of samples, which nobody asks for any, has to have some.
  plan.epochs = 1;
  plan.batch = plan.portion = portion_samples(recipe);
  return plan;
}

BatchBytes batch_bytes(const Recipe& recipe, std::uint64_t elements, std::uint64_t samples) {
  const SandblasterRecipe s = sandblaster_of(recipe);
  const std::uint64_t portions =
      (samples + portion_samples(recipe) - 1) / std::max<std::uint64_t>(portion_samples(recipe), 1);
  BatchBytes bytes;
  bytes.vector = elements * (batch_element(recipe) == server::Element::f64 ? 8 : 4);
  // docs/batch.md: the memory of vectors that are gone.
  constexpr std::uint64_t kGone = 3, kOfTheLog = 3;
  constexpr std::uint64_t kOfAServer = 24 << 20, kOfRecentCommands = 64 << 20;
  const optim::BatchVectors most = optim::most_vectors(batch_options(recipe));
  bytes.vectors = static_cast<std::uint64_t>(most.all) + kGone;
  // By the time it has them iterations may have freed all of them.
  bytes.held = static_cast<std::uint64_t>(most.state);
  // Each replica goes through a range of its own: of each there is a sum of 1, 2, 4, ... portions.
  const auto levels = static_cast<std::uint64_t>(std::bit_width(portions));
  bytes.sums = std::min(portions, static_cast<std::uint64_t>(s.replicas) * levels) + kGone;
  // Of each replica one is on its way or was just used, and so are the backup's, the gradient that
  // is sealed and the log's.
  bytes.messages = static_cast<std::uint64_t>(s.replicas) + kOfTheLog;
  bytes.copies = s.backups ? 2 : 1;
  bytes.servers = plan_of_servers(recipe).servers;
  bytes.process = kOfAServer;
  // Without a log the last commands stay, for a backup that comes back.
  if (s.durability == "none" && s.backups) bytes.process += kOfRecentCommands;
  return bytes;
}

std::string describe(const BatchBytes& bytes, const Recipe& recipe, std::uint64_t elements) {
  const SandblasterRecipe s = sandblaster_of(recipe);
  const std::uint64_t servers = std::max<std::uint64_t>(bytes.servers, 1);
  return "servers need up to " + format_bytes(bytes.all()) + " (" +
         format_bytes(bytes.all() / servers) + " each): " + std::to_string(bytes.vectors) +
         " vectors of " + std::to_string(elements) + " parameters" +
         (s.method == "lbfgs" ? " (sandblaster.history = " + std::to_string(s.history) + ")" : "") +
         ", " + std::to_string(bytes.held) +
         " that the evaluator holds while it fetches them, up to " + std::to_string(bytes.sums) +
         " sums of portions and " + std::to_string(bytes.messages) + " messages, " +
         format_bytes(bytes.vector) + " each" + (bytes.copies > 1 ? ", twice with backups" : "") +
         ", and " + format_bytes(bytes.process) + " for each server's process";
}

}  // namespace convoy::train
