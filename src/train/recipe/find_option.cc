#include <utility>

#include "train/recipe/fields.h"

namespace convoy::train {

const Option* find_option(const Recipe& recipe, const std::string& key) {
  std::vector<std::pair<std::string, const Options*>> tables{
      {"model.options.", &recipe.model.options},        {"data.train.", &recipe.data.train},
      {"data.validation.", &recipe.data.validation},    {"task.options.", &recipe.task.options},
      {"optimizer.", &recipe.optimizer.options},        {"schedule.", &recipe.schedule.options},
      {recipe.strategy + ".", &recipe.strategy_options}};
  for (const auto& [name, options] : recipe.candidates) tables.emplace_back(name + ".", &options);
  for (const auto& [table, options] : tables) {
    if (!key.starts_with(table)) continue;
    for (const Option& option : options->specification()) {
      if (option.key == key.substr(table.size())) return &option;
    }
  }
  return nullptr;
}

}  // namespace convoy::train
