#include "train/strategies/hybrid/options.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "convoy/train/optimizer_rule.h"
#include "convoy/train/placement.h"
#include "train/strategies/reducer_keys.h"

namespace convoy::train {

std::vector<Option> hybrid_keys() {
  std::vector<Option> keys{
      {"scheme", std::string("c"),
       "whose samples the partitioned layers take at a time: all (a), one rank's (b), some of each "
       "rank's (c), some of several ranks' (bc)"},
      {"senders", std::int64_t{0}, "bc: of how many ranks"},
      {"passes", std::int64_t{0},
       "c: that a step makes, each with as many of every rank's samples; 0: as many as partitions"},
      {"variable_batch", false,
       "update partitioned layers after each of the passes, with a batch of its samples"},
      {"rates", std::string("own"),
       "for batches k times as large as base_batch: the optimizer's own, k times them (linear), or "
       "sqrt(k) times them with the weight decay that fits (sqrt)"},
      {"base_batch", std::int64_t{128}, "the batch that the optimizer's rates are for"}};
  for (Option& key : reducer_keys()) keys.push_back(std::move(key));
  return keys;
}

namespace {

constexpr std::int64_t kMostPasses = 1024;

bool decays(const OptimizerRecipe& optimizer) {
  return optimizer.weight_decay > 0 ||
         std::any_of(optimizer.groups.begin(), optimizer.groups.end(),
                     [](const ParameterGroupRecipe& group) { return group.weight_decay > 0; });
}

// An update has to take rate x decay of a weight, as that of these rules does: others multiply the
// decay by a trust ratio, or divide it by what gradients were, which both go by the weights. No
// decay does then what several did in as many updates.
void check_rule_of_decay(const OptimizerRecipe& optimizer, std::vector<std::string>& problems) {
  const std::string& name = optimizer.name;
  if (name != "lars" && name != "lamb" && name != "adam" && name != "adagrad") return;
  if (!decays(optimizer)) return;
  const bool ratio = name == "lars" || name == "lamb";
  problems.push_back(
      "hybrid.rates is sqrt, which fits optimizer.weight_decay to the rate, and '" + name + "' " +
      (ratio ? "multiplies it by a trust ratio" : "divides it as it does gradients") +
      ", so that no decay fits: choose own or linear, an optimizer that decays "
      "weights by the rate alone (sgd, sgd_velocity, adamw), or no weight_decay");
}

// That an update of the recipe's own leaves something of a weight: of 1 - rate x decay below 0
// there is no root.
void check_decay(const OptimizerRecipe& optimizer, std::vector<std::string>& problems) {
  const auto check = [&](double rate, double decay, const std::string& whose) {
    if (rate * decay < 1) return;
    std::ostringstream text;
    text << "hybrid.rates is sqrt, and the learning rate " << rate << " times the weight decay "
         << decay << whose << " is " << rate * decay
         << ": one update would take all of a weight. It has to be below 1";
    problems.push_back(text.str());
  };
  check(optimizer.lr, optimizer.weight_decay, "");
  for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
    const ParameterGroupRecipe& group = optimizer.groups[i];
    check(optimizer.lr * group.lr_scale,
          group.weight_decay >= 0 ? group.weight_decay : optimizer.weight_decay,
          " of optimizer.groups[" + std::to_string(i) + "]");
  }
}

}  // namespace

void check_hybrid(const Recipe& recipe, std::vector<std::string>& problems) {
  const Options& options = recipe.strategy_options;
  check_reducer_keys(recipe, problems);
  const std::string& scheme = options.text("scheme");
  const std::int64_t senders = options.integer("senders");
  if (scheme != "a" && scheme != "b" && scheme != "c" && scheme != "bc") {
    problems.push_back("hybrid.scheme is '" + scheme + "'; it can be a, b, c or bc");
  } else if (scheme == "bc" && (senders < 1 || senders > recipe.grid.partitions)) {
    problems.push_back("hybrid.senders is " + std::to_string(senders) +
                       "; with scheme bc it can be from 1 to grid.partitions, which is " +
                       std::to_string(recipe.grid.partitions));
  } else if (scheme != "bc" && senders != 0) {
    problems.push_back("hybrid.senders is " + std::to_string(senders) + ", but hybrid.scheme is " +
                       scheme + ": it is for scheme bc");
  }
  const std::int64_t passes = options.integer("passes");
  if (passes != 0 && scheme != "c") {
    problems.push_back("hybrid.passes is " + std::to_string(passes) + ", but hybrid.scheme is " +
                       scheme + ": it is for scheme c");
  } else if (passes < 0 || passes > kMostPasses) {
    problems.push_back("hybrid.passes is " + std::to_string(passes) + "; it can be from 1 to " +
                       std::to_string(kMostPasses) + ", or 0 for as many as grid.partitions");
  }
  if (options.flag("variable_batch") && (scheme == "a" || passes == 1)) {
    problems.push_back("hybrid.variable_batch updates partitioned layers after each pass, and " +
                       (scheme == "a" ? std::string("scheme a has one: choose b, c or bc")
                                      : std::string("hybrid.passes is 1: choose more")));
  }
  const std::string& rates = options.text("rates");
  if (rates != "own" && rates != "linear" && rates != "sqrt")
    problems.push_back("hybrid.rates is '" + rates + "'; it can be own, linear or sqrt");
  // A plugin's may have a decay of its own, which would be replaced by the recipe's.
  const bool ours = built_in_optimizers().find(recipe.optimizer.name) != nullptr;
  if (rates == "sqrt" && !ours) {
    problems.push_back(
        "hybrid.rates is sqrt, which changes the weight decay; with the optimizer '" +
        recipe.optimizer.name + "' of a plugin it can be own or linear");
  }
  if (rates == "sqrt" && ours) {
    check_rule_of_decay(recipe.optimizer, problems);
    check_decay(recipe.optimizer, problems);
  }
  if (options.integer("base_batch") < 1) {
    problems.push_back("hybrid.base_batch is " + std::to_string(options.integer("base_batch")) +
                       "; it has to be at least 1");
  }
  if (recipe.training.accumulate > 1) {
    problems.push_back("training.accumulate is " + std::to_string(recipe.training.accumulate) +
                       "; hybrid cuts a batch into passes by hybrid.scheme instead: 1");
  }
  check_placement(recipe, {"replicated", "partitioned"}, problems);
}

HybridOptions hybrid_options(const Recipe& recipe) {
  const Options& keys = recipe.strategy_options;
  HybridOptions options;
  const std::string& scheme = keys.text("scheme");
  if (scheme == "b") options.senders = 1;
  if (scheme == "c") options.senders = static_cast<int>(recipe.grid.partitions);
  if (scheme == "bc") options.senders = static_cast<int>(keys.integer("senders"));
  options.passes = static_cast<int>(keys.integer("passes"));
  options.variable_batch = keys.flag("variable_batch");
  options.rates = rate_rule(keys.text("rates"));
  options.base_batch = static_cast<double>(keys.integer("base_batch"));
  return options;
}

}  // namespace convoy::train
