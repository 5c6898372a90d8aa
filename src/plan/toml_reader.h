// Values out of the tables of a TOML file, with complaints that name file, line and key. For units
// that have the TOML library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/parse_toml.h"
#include "convoy/base/names.h"

namespace convoy::plan {

// Takes values out of one table; what is left over at the end is unknown.
class TomlReader {
 public:
  TomlReader(const toml::table& table, std::string file, std::string path)
      : table_(table), file_(std::move(file)), path_(std::move(path)) {}

  void number(const char* key, double& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_number()) fail(*node, key, "a number");
    value = *node->value<double>();
  }

  void integer(const char* key, std::int64_t& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_integer()) fail(*node, key, "an integer");
    value = *node->value<std::int64_t>();
  }

  void text(const char* key, std::string& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_string()) fail(*node, key, "a text");
    value = *node->value<std::string>();
  }

  const toml::table* table(const char* key) {
    const toml::node* node = take(key);
    if (node != nullptr && !node->is_table()) fail(*node, key, "a table");
    return node == nullptr ? nullptr : node->as_table();
  }

  // Calls `each` with a reader of every element.
  template <typename Each>
  void list(const char* key, const Each& each) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    if (!node->is_array()) fail(*node, key, "a list of tables");
    for (const toml::node& element : *node->as_array()) {
      if (!element.is_table()) fail(element, key, "a list of tables");
      TomlReader reader(*element.as_table(), file_, path_ + key + "[].");
      each(reader);
      reader.no_others();
    }
  }

  void no_others() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      const std::string near = nearest_name(name, known_);
      throw UsageError(place(node) + "unknown key '" + path_ + name + "'" +
                       (near.empty() ? "" : "; did you mean '" + near + "'?"));
    }
  }

 private:
  const toml::node* take(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  std::string place(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line) + ": ";
  }

  [[noreturn]] void fail(const toml::node& node, const char* key, const char* right) const {
    throw UsageError(place(node) + path_ + key + " must be " + right);
  }

  const toml::table& table_;
  std::string file_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace convoy::plan
