#include "train/recipe/document.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "base/parse_toml.h"
#include "convoy/base/error.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// Whatever a value may be in TOML; anything else is taken as a text, so that the shell's quotes
// suffice.
toml::table parse_value(const std::string& value) {
  try {
    toml::table parsed = toml::parse("value = " + value + "\n");
    if (parsed.size() == 1) return parsed;
  } catch (const toml::parse_error&) {
  }
  toml::table text;
  text.insert("value", value);
  return text;
}

std::vector<std::string> split(const std::string& key) {
  std::vector<std::string> parts;
  std::istringstream stream(key);
  std::string part;
  while (std::getline(stream, part, '.')) parts.push_back(part);
  return parts;
}

// "placement.layers.parts" of "placement.layers[1].parts": a list is overridden as a whole.
std::string without_numbers(const std::string& key) {
  std::string text;
  bool inside = false;
  for (const char c : key) {
    inside = (inside || c == '[') && c != ']';
    if (!inside && c != ']') text += c;
  }
  return text;
}

bool in_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '[' ||
         c == ']';
}

// "training.batch" of "training.batch is missing: ...".
std::string leading_key(const std::string& text) {
  return {text.begin(), std::find_if_not(text.begin(), text.end(), in_key)};
}

// Whether the key stands in the text as a word of its own. One of the top level may be any word.
bool mentions(const std::string& text, const std::string& key) {
  if (key.find('.') == std::string::npos) return false;
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if ((at == 0 || !in_key(text[at - 1])) && (end == text.size() || !in_key(text[end])))
      return true;
  }
  return false;
}

}  // namespace

Document::Document(const RecipeText& text, const std::vector<std::string>& overrides)
    : name_(file_in_messages(text.name)), folder_(text.folder) {
  table_ = parse_toml(text.text, name_);
  in_file_ = table_;
  for (const std::string& override : overrides) apply(override);
}

void Document::apply(const std::string& override) {
  const std::size_t equals = override.find('=');
  const std::string key = override.substr(0, equals);
  const std::vector<std::string> parts = split(key);
  bool good = equals != std::string::npos && !parts.empty();
  for (const std::string& part : parts) good = good && !part.empty();
  if (!good)
    throw UsageError("--set " + override + ": write it as key=value, e.g. training.batch=64");
  toml::table* table = &table_;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    toml::node* next = table->get(parts[i]);
    if (next == nullptr) {
      table->insert(parts[i], toml::table{});
      next = table->get(parts[i]);
    }
    if (!next->is_table()) {
      throw UsageError("--set " + override + ": " + parts[i] + " is a value, not a table");
    }
    table = next->as_table();
  }
  toml::table parsed = parse_value(override.substr(equals + 1));
  table->insert_or_assign(parts.back(), std::move(*parsed.get("value")));
  overridden_[key] = override.substr(equals + 1);
}

bool Document::overridden(const std::string& with_numbers) const {
  const std::string key = without_numbers(with_numbers);
  for (std::size_t end = key.size(); end != std::string::npos && end > 0;
       end = key.rfind('.', end - 1)) {
    if (overridden_.count(key.substr(0, end)) > 0) return true;
  }
  return false;
}

bool Document::replaced(const std::string& key) const {
  const auto before = in_file_.at_path(key).value<std::string>();
  return before && overridden(key) && table_.at_path(key).value<std::string>() != before;
}

std::optional<std::string> Document::typed(const std::string& key) const {
  const auto found = overridden_.find(key);
  if (found == overridden_.end()) return std::nullopt;
  return found->second;
}

std::string Document::place(const std::string& key, const toml::node* node) const {
  if (overridden(key)) return "--set ";
  // A table that only overrides of its keys have made.
  const bool in_file = static_cast<bool>(in_file_.at_path(key));
  const auto inside = overridden_.lower_bound(key + ".");
  if (!in_file && inside != overridden_.end() && inside->first.starts_with(key + "."))
    return "--set ";
  if (node == nullptr || node->source().begin.line == 0) return name_ + ": ";
  return name_ + ":" + std::to_string(node->source().begin.line) + ": ";
}

std::string Document::place_of(const std::string& key) const {
  const toml::node* const node = key.empty() ? nullptr : table_.at_path(key).node();
  if (node == nullptr) return "";
  const std::string where = place(key, node);
  // What a program has put together has a name, but no file with lines.
  return where.starts_with("--set") || fs::path(name_).has_extension() ? where : "";
}

std::vector<std::string> Document::placed(const std::vector<std::string>& problems,
                                          const std::set<std::string>& unread) const {
  std::vector<std::string> all;
  for (const std::string& text : problems) {
    const bool follows = std::any_of(unread.begin(), unread.end(), [&text](const std::string& key) {
      return mentions(text, key);
    });
    if (!follows) all.push_back(place_of(leading_key(text)) + text);
  }
  return all;
}

bool gives(const RecipeText& text, const std::vector<std::string>& overrides,
           const std::string& key) {
  const Document document(text, overrides);
  return static_cast<bool>(document.table().at_path(key));
}

}  // namespace convoy::train
