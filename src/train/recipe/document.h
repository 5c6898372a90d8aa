// A parsed TOML file with overrides applied, private to the recipe's units.
#pragma once

#include <toml++/toml.h>

#include <set>
#include <string>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::train {

class Document {
 public:
  // Throws UsageError with the line for what is no TOML, and for an override that is no
  // "key=value".
  Document(const RecipeText& text, const std::vector<std::string>& overrides);

  const toml::table& table() const { return table_; }
  const std::string& folder() const { return folder_; }
  bool overridden(const std::string& key) const { return overridden_.count(key) > 0; }
  // "lenet.toml:12: " or "--set: ".
  std::string place(const std::string& key, const toml::node* node) const;

 private:
  void apply(const std::string& override);

  std::string name_;
  std::string folder_;
  toml::table table_;
  std::set<std::string> overridden_;
};

}  // namespace convoy::train
