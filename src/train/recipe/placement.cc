#include "convoy/train/placement.h"

#include <fnmatch.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/names.h"

namespace convoy::train {
namespace {

bool fits(const std::string& pattern, const std::string& layer) {
  return fnmatch(pattern.c_str(), layer.c_str(), 0) == 0;
}

bool fits(const PlacementRule& rule, const std::string& layer) {
  return rule.layers.empty() ||
         std::any_of(rule.layers.begin(), rule.layers.end(),
                     [&layer](const std::string& pattern) { return fits(pattern, layer); });
}

std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string name_of_rule(std::size_t index) {
  return "placement.layers[" + std::to_string(index) + "]";
}

}  // namespace

void check_placement(const Recipe& recipe, const std::vector<std::string>& offered,
                     std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < recipe.placement.layers.size(); ++i) {
    const PlacementRule& rule = recipe.placement.layers[i];
    const bool known = std::find(offered.begin(), offered.end(), rule.how) != offered.end();
    if (!known && !rule.how.empty()) {
      const std::string near = nearest_name(rule.how, offered);
      problems.push_back(name_of_rule(i) + ".how is '" + rule.how + "'; with " + recipe.strategy +
                         " it can be " + names_text(offered) +
                         (near.empty() ? "" : "; did you mean " + near + "?"));
    }
    if (rule.parts.empty()) continue;
    if (static_cast<std::int64_t>(rule.parts.size()) != recipe.grid.partitions) {
      problems.push_back(name_of_rule(i) + ".parts has " + std::to_string(rule.parts.size()) +
                         " numbers; it has to have one for each of the partitions: grid.partitions "
                         "is " +
                         std::to_string(recipe.grid.partitions));
    }
    if (std::none_of(rule.parts.begin(), rule.parts.end(), [](double part) { return part > 0; }))
      problems.push_back(name_of_rule(i) + ".parts leaves nothing to any partition");
  }
}

std::vector<std::string> problems_of_patterns(const PlacementRecipe& placement,
                                              const std::string& model,
                                              const std::vector<std::string>& layers) {
  constexpr std::size_t kFew = 12;
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < placement.layers.size(); ++i) {
    for (const std::string& pattern : placement.layers[i].layers) {
      if (std::any_of(layers.begin(), layers.end(),
                      [&pattern](const std::string& layer) { return fits(pattern, layer); }))
        continue;
      const std::string near = nearest_name(pattern, layers);
      problems.push_back(
          name_of_rule(i) + ".layers: " + model + " has no layer that fits '" + pattern + "'" +
          (!near.empty()           ? "; did you mean " + near + "?"
           : layers.size() <= kFew ? "; it has " + names_text(layers)
                                   : ": `convoy models --model NAME --layers` lists them"));
    }
  }
  return problems;
}

void check_patterns(const Recipe& recipe, const Vocabulary& vocabulary,
                    std::vector<std::string>& problems) {
  const auto found = vocabulary.layers.find(recipe.model.name);
  if (recipe.placement.layers.empty() || found == vocabulary.layers.end()) return;
  try {
    const auto wrong =
        problems_of_patterns(recipe.placement, recipe.model.name, found->second(recipe));
    problems.insert(problems.end(), wrong.begin(), wrong.end());
  } catch (const UsageError&) {
    // The network's options make no sense, which is said when it is built.
  }
}

std::vector<LayerPlacement> place_layers(const PlacementRecipe& placement,
                                         const model::Blueprint& blueprint,
                                         const std::string& usual) {
  std::vector<std::string> names;
  for (const model::StageSpec& stage : blueprint.stages) {
    for (const model::Node& node : stage.nodes) names.push_back(node.name);
  }
  const auto problems = problems_of_patterns(placement, blueprint.name, names);
  if (!problems.empty()) throw UsageError(problems.front());
  std::vector<LayerPlacement> placed;
  for (const std::string& name : names) {
    LayerPlacement& layer = placed.emplace_back(LayerPlacement{name, usual, {}});
    for (const PlacementRule& rule : placement.layers) {
      if (!fits(rule, name)) continue;
      layer.how = rule.how;
      layer.parts = rule.parts;
    }
  }
  return placed;
}

}  // namespace convoy::train
