#include "train/strategies/partitioned/balance.h"

#include <sstream>
#include <utility>
#include <variant>

#include "convoy/base/error.h"
#include "train/strategies/partitioned/options.h"

namespace convoy::train {

std::vector<std::string> text_of(const model::LayerParts& parts) {
  std::vector<std::string> texts;
  for (const auto& [layer, counts] : parts) {
    std::string& text = texts.emplace_back(layer + ":");
    for (const std::int64_t count : counts) text += " " + std::to_string(count);
  }
  return texts;
}

std::optional<model::LayerParts> parts_of(const std::vector<std::string>& texts) {
  model::LayerParts parts;
  for (const std::string& text : texts) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    std::vector<std::int64_t>& counts = parts[text.substr(0, colon)];
    if (!counts.empty()) return std::nullopt;  // a layer that was there
    std::istringstream numbers(text.substr(colon + 1));
    for (std::int64_t count = 0; numbers >> count;) {
      if (count < 0) return std::nullopt;
      counts.push_back(count);
    }
    if (!numbers.eof() || counts.empty()) return std::nullopt;
  }
  return parts;
}

DividedByHand divided_by_hand(const Recipe& recipe, const model::Blueprint& blueprint,
                              const std::vector<model::Shape>& inputs) {
  DividedByHand divided{rules_by_hand(recipe, blueprint), {}};
  divided.plan = plan_partition(blueprint, inputs, divided.rules);
  return divided;
}

std::optional<model::LayerParts> noted_parts(const Recipe& recipe, const model::PartitionPlan& plan,
                                             const model::Blueprint& blueprint) {
  auto parts = parts_of(recipe.strategy_options.texts("parts"));
  if (!parts || !fits(*parts, plan, blueprint)) return std::nullopt;
  return parts;
}

bool balance_alike(const Recipe& a, const Recipe& b) {
  const Options &one = a.strategy_options, &other = b.strategy_options;
  return one.text("balance") == other.text("balance") &&
         one.numbers("speeds") == other.numbers("speeds");
}

model::LayerParts counted_parts(const Recipe& recipe, const model::PartitionPlan& plan,
                                const model::Blueprint& blueprint) {
  const std::string& balance = recipe.strategy_options.text("balance");
  if (balance != "parameters" && balance != "macs") return model::parts_of(plan, blueprint);
  const auto what = balance == "macs" ? model::CountedCost::macs : model::CountedCost::parameters;
  return balanced_parts(plan, blueprint, counted_costs(blueprint, plan, what),
                        partition_speeds(recipe));
}

std::vector<double> partition_speeds(const Recipe& recipe) {
  const std::vector<double>& speeds = recipe.strategy_options.numbers("speeds");
  if (!speeds.empty()) return speeds;
  return std::vector<double>(static_cast<std::size_t>(recipe.grid.partitions), 1);
}

namespace {

model::LayerParts balanced_layers(const Recipe& recipe, const model::PartitionPlan& plan,
                                  const model::Blueprint& blueprint) {
  if (auto noted = noted_parts(recipe, plan, blueprint)) return *std::move(noted);
  if (recipe.strategy_options.text("balance") == kByTime) return {};
  return counted_parts(recipe, plan, blueprint);
}

}  // namespace

model::LayerParts balanced_layers(const Recipe& recipe, const model::Blueprint& blueprint,
                                  const std::vector<model::Shape>& inputs) {
  if (recipe.strategy_options.text("balance") == kEven) return {};
  return balanced_layers(recipe, divided_by_hand(recipe, blueprint, inputs).plan, blueprint);
}

model::PartitionRules partition_rules(const Recipe& recipe, const model::Blueprint& blueprint,
                                      const std::vector<model::Shape>& inputs) {
  if (recipe.strategy_options.text("balance") == kEven) return rules_by_hand(recipe, blueprint);
  DividedByHand divided = divided_by_hand(recipe, blueprint, inputs);
  const model::LayerParts parts = balanced_layers(recipe, divided.plan, blueprint);
  return with_parts(std::move(divided.rules), parts, divided.plan, blueprint);
}

void check_trains_in_parts(const model::Blueprint& blueprint) {
  for (const model::StageSpec& stage : blueprint.stages) {
    for (const model::Node& node : stage.nodes) {
      const auto* opaque = std::get_if<model::layer::Opaque>(&node.kind);
      if (opaque == nullptr || !opaque->make) continue;
      throw UsageError("the network '" + blueprint.name + "' is not divided: its stage '" +
                       stage.name + "' is one module, " + opaque->type +
                       ", which trains whole: set strategy = \"sync\"");
    }
  }
}

}  // namespace convoy::train
