#include "train/recipe/former.h"

#include <toml++/toml.h>

#include <sstream>

namespace convoy::train {

std::string of_today(const std::string& recipe) {
  toml::table table;
  try {
    table = toml::parse(recipe);
  } catch (const toml::parse_error&) {
    return recipe;
  }
  const toml::table* const loss = table["loss"].as_table();
  if (loss == nullptr || table.contains("task")) return recipe;
  const bool one_vs_all = (*loss)["name"].value_or(std::string()) == "one_vs_all";
  toml::table options{{"label_smoothing", (*loss)["label_smoothing"].value_or(0.0)}};
  table.insert("task", toml::table{{"name", one_vs_all ? "one_vs_all" : "classification"},
                                   {"options", std::move(options)}});
  table.erase("loss");
  std::ostringstream text;
  text << table << '\n';
  return text.str();
}

std::string chosen_figure(const std::string& recipe) {
  try {
    return toml::parse(recipe)["checkpoint"]["best"].value_or(std::string());
  } catch (const toml::parse_error&) {
    return "";
  }
}

std::string former_figure(const std::string& recipe) {
  constexpr const char* kUsual = "top1";
  const std::string chosen = chosen_figure(recipe);
  if (!chosen.empty()) return chosen;
  try {
    const toml::table table = toml::parse(of_today(recipe));
    const std::string task = table["task"]["name"].value_or(std::string("classification"));
    return task == "classification" || task == "one_vs_all" ? kUsual : "";
  } catch (const toml::parse_error&) {
    return kUsual;
  }
}

}  // namespace convoy::train
