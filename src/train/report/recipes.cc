// What the recipes of several runs differ in.
#include <toml++/toml.h>
#include <array>
#include <charconv>

#include <map>
#include <set>
#include <sstream>

#include "convoy/train/server_job.h"
#include "train/report/html.h"
#include "train/report/sections.h"

namespace convoy::train {
namespace {

using RecipeValues = std::map<std::string, std::string>;  // "optimizer.lr" -> "0.1"

// Numbers in as few digits as tell them from all others, as people write them.
std::string text_of_value(const toml::node& node) {
  if (const auto* number = node.as_floating_point()) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number->get());
    return {digits.data(), end.ptr};
  }
  std::ostringstream text;
  const toml::array* const list = node.as_array();
  if (list == nullptr) {
    text << toml::toml_formatter(node);
    return text.str();
  }
  for (const toml::node& value : *list)
    text << (text.tellp() > 0 ? ", " : "") << text_of_value(value);
  return "[" + text.str() + "]";
}

void flatten(const toml::table& table, const std::string& inside, RecipeValues& values) {
  for (const auto& [key, node] : table) {
    const std::string name = inside + std::string(key.str());
    if (const toml::table* const inner = node.as_table()) {
      flatten(*inner, name + ".", values);
      continue;
    }
    values[name] = text_of_value(node);
  }
}

// Of a file that somebody may have changed since.
RecipeValues values_of(const std::string& recipe) {
  RecipeValues values;
  try {
    flatten(toml::parse(recipe), "", values);
  } catch (const toml::parse_error&) {
    values.clear();
  }
  return values;
}

// Differs in all of them, and says nothing of what was trained.
bool is_a_name(const std::string& key) { return key == "name" || key == "output.folder"; }

std::string cell(const RecipeValues& values, const std::string& key) {
  constexpr std::size_t kMost = 60;
  const auto found = values.find(key);
  if (found == values.end()) return "<span class=\"soft\">–</span>";
  std::string text = found->second;
  if (text.size() <= kMost) return escaped(text);
  // What follows the last whole character may be a part of one.
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return escaped(text.substr(0, end)) + "…";
}

}  // namespace

std::string recipe_value(const RunRecord& run, const std::string& key) {
  const RecipeValues values = values_of(run.recipe);
  const auto found = values.find(key);
  return found == values.end() ? "" : escaped(found->second);
}

std::string replicas_of(const RunRecord& run) {
  const std::string strategy = run.text("strategy");
  return is_server_job(strategy) ? recipe_value(run, strategy + ".replicas") : "";
}

void add_recipe_differences(Page& page, const std::vector<RunRecord>& runs) {
  std::vector<RecipeValues> all;
  std::set<std::string> keys;
  for (const RunRecord& run : runs) {
    all.push_back(values_of(run.recipe));
    for (const auto& [key, value] : all.back()) keys.insert(key);
  }
  std::vector<std::string> head{"key"};
  for (const RunRecord& run : runs) head.push_back(escaped(run.label));
  std::vector<std::vector<std::string>> rows;
  for (const std::string& key : keys) {
    std::set<std::string> different;
    for (const RecipeValues& values : all) {
      const auto found = values.find(key);
      different.insert(found == values.end() ? "" : found->second);
    }
    if (different.size() == 1 || is_a_name(key)) continue;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back("<code>" + escaped(key) + "</code>");
    for (const RecipeValues& values : all) row.push_back(cell(values, key));
  }
  if (rows.empty()) return;
  page.add(
      "<h2>What differs in the recipes</h2>\n<p class=\"soft\">Keys that are not the same in all "
      "of "
      "them; – where a recipe has none.</p>\n" +
      table(head, rows));
}

}  // namespace convoy::train
