#include "cli/plan/partition_plan.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/toml_text.h"
#include "cli/bench/step_recipe.h"
#include "cli/plan/network.h"
#include "convoy/base/error.h"
#include "convoy/model/factory.h"
#include "convoy/train/partition_rules.h"
#include "convoy/train/registry.h"

namespace convoy::cli {
namespace {

constexpr std::int64_t kUsualBatch = 32;

struct Network {
  train::Recipe recipe;
  model::Blueprint blueprint;
  std::vector<model::Shape> inputs;
};

// What the words say of a recipe. Those of speeds come last, if the balance goes by any.
std::vector<std::string> overrides_of(const PartitionWords& words) {
  std::vector<std::string> all;
  if (!words.by.empty()) all.push_back("partitioned.images=" + toml_string(words.by));
  if (!words.balance.empty()) all.push_back("partitioned.balance=" + toml_string(words.balance));
  all.insert(all.end(), words.overrides.begin(), words.overrides.end());
  return all;
}

std::string override_of(const std::vector<double>& speeds) {
  std::string list;
  for (const double speed : speeds) list += (list.empty() ? "" : ", ") + shortest(speed);
  return "partitioned.speeds=[" + list + "]";
}

// The speeds are those of the recipe, or of the plan alone where nothing is divided by them.
template <class Parse>
train::Recipe with_speeds(const PartitionWords& words, const Parse& parse) {
  std::vector<std::string> overrides = overrides_of(words);
  if (words.speeds.empty()) return parse(overrides);
  overrides.push_back(override_of({}));
  train::Recipe recipe = parse(overrides);
  if (recipe.strategy_options.text("balance") == "even") return recipe;
  overrides.back() = override_of(words.speeds);
  return parse(overrides);
}

// Before a recipe with it makes no sense for other reasons.
void check_is_partitioned(const PartitionWords& words) {
  for (const std::string& override : words.overrides) {
    const std::size_t equals = override.find('=');
    if (equals == override.npos || override.substr(0, equals) != "strategy") continue;
    std::string value = override.substr(equals + 1);
    std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
    if (value == "partitioned") continue;
    throw UsageError("the plan is of strategy = \"partitioned\", not of \"" + value +
                     "\": leave strategy out of --set");
  }
}

Network named(const PartitionWords& words, train::Registry& registry) {
  check_is_partitioned(words);
  model::check_model_name(words.what);
  if (words.partitions == 0) throw UsageError("over how many partitions? Write for example -P 4");
  add_made_up_images(registry);
  Network network;
  network.recipe = with_speeds(words, [&](const std::vector<std::string>& overrides) {
    StepWords step;
    step.model = words.what;
    step.strategy = "partitioned";
    step.partitions = words.partitions;
    step.batch = words.batch > 0 ? words.batch : kUsualBatch;
    step.overrides = overrides;
    return step_recipe(step, words.partitions, registry);
  });
  network.blueprint = network_of(network.recipe, registry);
  network.inputs = inputs_of(network.recipe);
  return network;
}

// What the task makes of the data, as the strategy sees it.
Network of_recipe(const PartitionWords& words, train::Registry& registry) {
  check_is_partitioned(words);
  const train::RecipeText text = train::read_recipe_file(words.what);
  registry.load_plugins(train::plugins_of(text, words.overrides));
  Network network;
  network.recipe = with_speeds(words, [&](std::vector<std::string> overrides) {
    std::vector<std::string> first{"strategy=partitioned"};
    if (words.partitions > 0)
      first.push_back("grid.partitions=" + std::to_string(words.partitions));
    if (words.batch > 0) first.push_back("training.batch=" + std::to_string(words.batch));
    overrides.insert(overrides.begin(), first.begin(), first.end());
    return parse_recipe(text, overrides, registry.vocabulary());
  });
  SeenNetwork seen = see_network(network.recipe, registry);
  network.blueprint = std::move(seen.network);
  network.inputs = std::move(seen.inputs);
  return network;
}

void check_speeds(const std::vector<double>& speeds, std::int64_t partitions) {
  if (static_cast<std::int64_t>(speeds.size()) != partitions) {
    throw UsageError("--speeds has " + std::to_string(speeds.size()) +
                     (speeds.size() == 1 ? " number" : " numbers") + " for " +
                     std::to_string(partitions) + (partitions == 1 ? " partition" : " partitions") +
                     ": give one for each");
  }
  for (const double speed : speeds) {
    if (!(speed > 0) || !std::isfinite(speed))
      throw UsageError("--speeds have to be above 0, and finite; one is " + shortest(speed));
  }
}

}  // namespace

double PlannedPartition::memory(std::size_t partition) const {
  return needs_of(recipe, network, plan, static_cast<int>(partition), share).all();
}

bool PlannedPartition::alike() const {
  return std::all_of(speeds.begin(), speeds.end(),
                     [this](double speed) { return speed == speeds.front(); });
}

double PlannedPartition::most_over_mean(double (*of)(const model::PartitionLoad&)) const {
  double most = 0, sum = 0, speed = 0;
  for (std::size_t p = 0; p < loads.size(); ++p) {
    most = std::max(most, of(loads[p]) / speeds[p]);
    sum += of(loads[p]);
    speed += speeds[p];
  }
  return sum > 0 ? most * speed / sum : 1;
}

double PlannedPartition::longest() const {
  double most = 0;
  for (std::size_t p = 0; p < loads.size(); ++p) most = std::max(most, loads[p].macs / speeds[p]);
  return most;
}

PlannedPartition plan_of(const PartitionWords& words) {
  if (!words.speeds.empty() && words.partitions > 0) check_speeds(words.speeds, words.partitions);
  train::Registry registry;
  Network network =
      is_recipe_file(words.what) ? of_recipe(words, registry) : named(words, registry);
  PlannedPartition p;
  p.recipe = std::move(network.recipe);
  p.network = std::move(network.blueprint);
  p.speeds = words.speeds.empty() ? partition_speeds(p.recipe) : words.speeds;
  check_speeds(p.speeds, p.recipe.grid.partitions);
  train::check_trains_in_parts(p.network);
  const auto rules = partition_rules(p.recipe, p.network, network.inputs);
  p.plan = plan_partition(p.network, network.inputs, rules);
  p.parts = balanced_layers(p.recipe, p.network, network.inputs);
  p.loads = loads_of(p.network, p.plan);
  p.macs = static_cast<double>(cost_of(p.network, network.inputs).macs);
  const std::string& precision = p.recipe.precision;
  p.parameter_bytes = precision == "float64" ? 8 : 4;
  p.value_bytes = precision == "bfloat16" ? 2 : p.parameter_bytes;
  // Where a recipe leaves it to the number of ranks there is one.
  const auto replicas = std::max<std::int64_t>(1, p.recipe.grid.replicas);
  p.share = {.replicas = static_cast<int>(replicas),
             .samples = (p.recipe.training.batch + replicas - 1) / replicas};
  return p;
}

}  // namespace convoy::cli
