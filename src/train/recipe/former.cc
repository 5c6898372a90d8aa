#include "train/recipe/former.h"

#include <toml++/toml.h>

#include <cstdint>
#include <sstream>

#include "convoy/optim/batch.h"
#include "convoy/server/batch.h"

namespace convoy::train {

namespace {

constexpr const char* kUsual = "top1";

std::string chosen_in(const toml::table& recipe) {
  const auto best = recipe["checkpoint"]["best"].value_or(std::string());
  return best.empty() ? recipe["training"]["target"]["metric"].value_or(std::string()) : best;
}

// The level alone, of the metric that the best checkpoint goes by, and 0 for none. Whether it was
// so.
bool renew_target(toml::table& recipe) {
  toml::table* const training = recipe["training"].as_table();
  if (training == nullptr || !(*training)["target"].is_number()) return false;
  const double level = (*training)["target"].value_or(0.0);
  training->erase("target");
  if (level == 0) return true;
  std::string metric = chosen_in(recipe);
  if (metric.empty()) metric = kUsual;
  training->insert("target", toml::table{{"metric", metric}, {"level", level}});
  return true;
}

// A table [loss] has become [task].
bool renew_loss(toml::table& table) {
  const toml::table* const loss = table["loss"].as_table();
  if (loss == nullptr || table.contains("task")) return false;
  const bool one_vs_all = (*loss)["name"].value_or(std::string()) == "one_vs_all";
  toml::table options{{"label_smoothing", (*loss)["label_smoothing"].value_or(0.0)}};
  table.insert("task", toml::table{{"name", one_vs_all ? "one_vs_all" : "classification"},
                                   {"options", std::move(options)}});
  table.erase("loss");
  return true;
}

// As much of the history as there may be by now: what a run has done with a longer one can be gone
// on from, and used. Whether it was longer.
bool renew_history(toml::table& recipe) {
  toml::table* const own = recipe["sandblaster"].as_table();
  if (own == nullptr) return false;
  const auto history = (*own)["history"].value_exact<std::int64_t>();
  if (!history || *history <= server::kLongestHistory || *history > optim::kMostHistory)
    return false;
  own->insert_or_assign("history", std::int64_t{server::kLongestHistory});
  return true;
}

}  // namespace

std::string of_today(const std::string& recipe) {
  toml::table table;
  try {
    table = toml::parse(recipe);
  } catch (const toml::parse_error&) {
    return recipe;
  }
  const bool target = renew_target(table), loss = renew_loss(table), history = renew_history(table);
  if (!target && !loss && !history) return recipe;
  std::ostringstream text;
  text << table << '\n';
  return text.str();
}

std::string chosen_figure(const std::string& recipe) {
  try {
    return chosen_in(toml::parse(recipe));
  } catch (const toml::parse_error&) {
    return "";
  }
}

std::string former_figure(const std::string& recipe) {
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
