// A parsed TOML file with overrides applied, private to the recipe's units.
#pragma once

#include <toml++/toml.h>

#include <map>
#include <optional>
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
  // Whether an override gave this key, or a table that it is in.
  bool overridden(const std::string& key) const;
  // Whether an override gave this text another value than the file's, which has one.
  bool replaced(const std::string& key) const;
  // The value of an override as it was typed; nothing for another key.
  std::optional<std::string> typed(const std::string& key) const;
  // "lenet.toml:12: " or "--set ".
  std::string place(const std::string& key, const toml::node* node) const;
  // Problems that begin with a key, each behind its place where the key stands there, but for text
  // that no user wrote. Without those that follow from one of `unread`, keys of another type.
  std::vector<std::string> placed(const std::vector<std::string>& problems,
                                  const std::set<std::string>& unread) const;

 private:
  void apply(const std::string& override);
  std::string place_of(const std::string& key) const;

  std::string name_;
  std::string folder_;
  toml::table table_;
  toml::table in_file_;                            // without overrides
  std::map<std::string, std::string> overridden_;  // key -> value as typed
};

}  // namespace convoy::train
