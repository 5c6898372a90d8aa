// TOML to Recipe, collecting every problem on the way: what parse_recipe goes through keys with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/names.h"
#include "train/recipe/convert.h"
#include "train/recipe/document.h"
#include "train/recipe/fields.h"

namespace convoy::train {

class RecipeReader : public Fields, public Given {
 public:
  RecipeReader(const Document& document, const Vocabulary& vocabulary, Files files)
      : document_(document), vocabulary_(vocabulary), files_(files), tables_{&document.table()} {}

  bool operator()(const std::string& key) const override { return given_.count(key) > 0; }
  bool present(const std::string& key) const override { return present_.count(key) > 0; }
  std::vector<std::string>& problems() { return problems_; }

  // What checks have found, behind the first `first` problems, in its place.
  void place_problems(std::size_t first) {
    const auto found = problems_.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<std::string> placed = document_.placed(
        {std::make_move_iterator(found), std::make_move_iterator(problems_.end())}, unread_);
    problems_.erase(found, problems_.end());
    problems_.insert(problems_.end(), placed.begin(), placed.end());
  }

  // Whether every table that is chosen by name could be read.
  bool readable() const { return complained_.empty(); }

  // Keys of the top level that describe() never asked for.
  void finish() { report_unknown(); }

  bool begin(const std::string& key, const std::string&) override {
    open(key);
    return true;
  }
  void end() override {
    report_unknown();
    tables_.pop_back();
    path_.pop_back();
    known_.pop_back();
  }

  void field(const char* key, bool& v, const char*) override { read(key, v); }
  void field(const char* key, std::int64_t& v, const char*) override { read(key, v); }
  void field(const char* key, double& v, const char*) override { read(key, v); }
  void field(const char* key, std::vector<double>& v, const char*) override { read(key, v); }
  void field(const char* key, std::string& v, const char*, const Choices& choices,
             Path path) override {
    const bool present = read(key, v);
    if (present && path != Path::no) resolve(key, v, path);
    if (choices.empty() || std::find(choices.begin(), choices.end(), v) != choices.end()) return;
    std::string text = "'" + v + "' is none of ";
    for (const std::string& choice : choices) text += (&choice == &choices[0] ? "" : ", ") + choice;
    problem(key, text + suggestion(v, choices));
  }
  void field(const char* key, std::vector<std::string>& v, const char*, Path path) override {
    if (!read(key, v) || path == Path::no) return;
    for (std::string& element : v) resolve(key, element, path);
  }

  void list(const char* key, List& list, const char*) override {
    known_.back().push_back(key);
    const toml::node* node = child(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_array_of_tables()) {
      return problem(key, "has to be tables: [[" + full(key) + "]]");
    }
    list.clear();
    for (const toml::node& element : *array) {
      const std::size_t index = list.size();
      list.add();
      enter(std::string(key) + "[" + std::to_string(index) + "]", element.as_table());
      list.describe_one(index, *this);
      end();
    }
  }

  void options(const std::string& key, Options& options, const std::string& chosen,
               const std::string&) override {
    const auto [table_pointer, what] = words();
    const Vocabulary::Table& table = *table_pointer;
    const auto found = table.find(chosen);
    if (found == table.end()) {
      known_.back().push_back(key);
      if (complained_.insert(std::string(what)).second)
        unknown_choice(what, chosen, names_in(table));
      return;
    }
    options = Options(found->second);
    open(key);
    read_options(options);
    end();
  }

  void own_keys(OptimizerRecipe& optimizer) override {
    read_kind(vocabulary_.optimizers, optimizer);
  }
  void own_keys(ScheduleRecipe& schedule) override { read_kind(vocabulary_.schedules, schedule); }

  bool word(const char* key, const char* word, bool& is, const char*) override {
    const toml::node* node = child(key);
    if (node == nullptr || !node->is_string()) return false;
    known_.back().push_back(key);
    is = node->value<std::string>() == word;
    if (!is) problem(key, "can be \"" + std::string(word) + "\", or tables");
    return true;
  }

  bool optional_table(const char* key, bool& present) override {
    present = child(key) != nullptr;
    return present;
  }

  // Tables of strategies that are not chosen: one recipe may serve several. What is wrong in them
  // is said all the same.
  void other_strategies(const Recipe& recipe) {
    for (const auto& [name, keys] : vocabulary_.strategies) {
      if (name == recipe.strategy || recipe.candidates.contains(name) || child(name) == nullptr)
        continue;
      Options ignored;
      options(name, ignored, name, "");
    }
  }

 private:
  // What an options table at this place chooses from.
  std::pair<const Vocabulary::Table*, const char*> words() const {
    if (path_.empty()) return {&vocabulary_.strategies, "strategy"};
    if (path_.back() == "data") return {&vocabulary_.readers, "reader"};
    if (path_.back() == "task") return {&vocabulary_.tasks, "task"};
    return {&vocabulary_.models, "model"};
  }

  std::string full(const std::string& key) const {
    std::string text;
    for (const std::string& part : path_) text += part + ".";
    return text + key;
  }

  const toml::node* child(const std::string& key) const {
    if (tables_.back() == nullptr || of_another_reader(key)) return nullptr;
    return tables_.back()->get(key);
  }

  void problem(const std::string& key, const std::string& text) {
    const toml::node* node = child(key);
    problems_.push_back(document_.place(full(key), node) + full(key) + ": " + text);
  }

  static std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = nearest_name(word, known);
    return near.empty() ? "" : "; did you mean " + near + "?";
  }

  void open(const std::string& key) {
    known_.back().push_back(key);
    const toml::node* node = child(key);
    if (node != nullptr && !node->is_table())
      problem(key, "has to be a table: [" + full(key) + "]");
    enter(key, node == nullptr ? nullptr : node->as_table());
  }

  void enter(const std::string& key, const toml::table* table) {
    tables_.push_back(table);
    path_.push_back(key);
    known_.emplace_back();
  }

  template <class T>
  bool read(const std::string& key, T& value) {
    known_.back().push_back(key);
    all_known_.insert(full(key));
    const toml::node* node = child(key);
    if (node == nullptr) return false;
    auto converted = convert<T>(*node);
    if constexpr (std::is_same_v<T, std::string>) {
      // --set name=nan: a word that happens to be a number of TOML.
      if (!converted && !node->is_table() && !node->is_array())
        converted = document_.typed(full(key));
    }
    if (!converted) {
      problem(key, std::string("has to be ") + kTypeName<T>);
      unread_.insert(full(key));
      return false;
    }
    present_.insert(full(key));
    if (*converted != value) given_.insert(full(key));
    value = std::move(*converted);
    return true;
  }

  // "optimizer.lr" for lr without its table: keys of this name, where they are few.
  std::string of_tables(const std::string& name) const {
    constexpr int kMost = 3;
    if (!path_.empty()) return "";
    std::string text;
    int found = 0;
    for (const std::string& key : all_known_) {
      if (!key.ends_with("." + name) || key.find('[') != std::string::npos) continue;
      text += (text.empty() ? "" : " or ") + key;
      if (++found > kMost) return "";
    }
    return text;
  }

  void report_unknown() {
    if (tables_.back() == nullptr) return;
    for (const auto& [key, node] : *tables_.back()) {
      const std::string name(key.str());
      const auto& known = known_.back();
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      if (of_another_reader(name)) continue;
      std::string text = "there is no such key";
      const std::string near = nearest_name(name, known);
      const std::vector<std::string> own = without_others(known);
      if (!near.empty()) {
        text += "; did you mean " + full(near) + "?";
      } else if (const std::string other = of_tables(name); !other.empty()) {
        text += "; did you mean " + other + "?";
      } else if (own.size() <= 12) {
        text += own.empty() ? " here; none is known" : "; there are";
        for (const std::string& other : own) text += (&other == &own[0] ? " " : ", ") + other;
      }
      problem(name, text);
    }
  }

  // Whether the keys of this table are a reader's, and an override has replaced the reader that the
  // file's were written for.
  bool reader_is_replaced() const {
    return path_.size() == 2 && path_[0] == "data" &&
           (path_[1] == "train" || path_[1] == "validation") && document_.replaced("data.reader");
  }
  // Keys of the same name as well: they meant what that reader takes them for.
  bool of_another_reader(const std::string& key) const {
    return reader_is_replaced() && !document_.overridden(full(key));
  }
  // Whether this is data that a checkpoint was trained or evaluated on, which who uses it may have
  // no use for. Whoever opens it looks whether it is named.
  bool may_be_unnamed() const { return files_ == Files::may_be_missing && reader_is_replaced(); }

  void read_options(Options& options) {
    for (const Option& option : options.specification()) {
      Value value = option.initial;
      const bool present = std::visit([&](auto& v) { return read(option.key, v); }, value);
      if (!present && option.required && !may_be_unnamed()) {
        problem(option.key, "is missing: " + option.doc);
      } else if (present && option.required && option.kind == Option::Kind::path &&
                 names_nothing(value)) {
        problem(option.key, "is empty: " + option.doc);
      } else if (present && option.kind == Option::Kind::path) {
        resolve_option(option.key, value);
      }
      options.set(option.key, std::move(value));
    }
  }

  // What the name of an optimizer or a schedule means, with its keys in the current table.
  template <class Kind, class Chosen>
  void read_kind(const Kinds<Kind>& kinds, Chosen& chosen) {
    chosen.kind = kinds.find(chosen.name);
    chosen.options = chosen.kind ? Options(chosen.kind->options) : Options();
    read_options(chosen.options);
    read_others(kinds, chosen.options);
    if (chosen.kind) return;
    complained_.insert(Kind::kSort);
    unknown_choice(Kind::kSort, chosen.name, kinds.names());
  }

  // Keys of other kinds than the chosen one: whether they have their defaults is given_'s to say.
  // Of several kinds with such a key the first says what it is.
  template <class Kind>
  void read_others(const Kinds<Kind>& kinds, const Options& own) {
    std::set<std::string> done;
    for (const auto& kind : kinds) {
      for (const Option& option : kind->options) {
        if (own.has(option.key) || !done.insert(option.key).second) continue;
        Value value = option.initial;
        std::visit([&](auto& v) { read(option.key, v); }, value);
        others_.insert(full(option.key));
      }
    }
  }

  // Of keys of the current table, those that mean something to what is chosen.
  std::vector<std::string> without_others(const std::vector<std::string>& known) const {
    std::vector<std::string> own;
    for (const std::string& key : known) {
      if (!others_.contains(full(key))) own.push_back(key);
    }
    return own;
  }

  static std::vector<std::string> names_in(const Vocabulary::Table& table) {
    std::vector<std::string> names;
    for (const auto& entry : table) names.push_back(entry.first);
    return names;
  }

  void unknown_choice(const std::string& what, const std::string& chosen,
                      std::vector<std::string> known) {
    if (what == "strategy") known.insert(known.begin(), kAutomatic);
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    const std::string key = what == "strategy" ? "strategy" : what == "reader" ? "reader" : "name";
    problem(key, (chosen.empty() ? "is missing; the " + what + "s are " + list
                                 : "there is no " + what + " '" + chosen + "'; there are " + list) +
                     (chosen.empty() ? "" : suggestion(chosen, known)));
  }

  void resolve_option(const std::string& key, Value& value) {
    if (auto* text = std::get_if<std::string>(&value)) {
      resolve(key, *text, Path::must_exist);
    } else if (auto* texts = std::get_if<std::vector<std::string>>(&value)) {
      for (std::string& text : *texts) resolve(key, text, Path::must_exist);
    }
  }

  static bool names_nothing(const Value& value) {
    if (const auto* text = std::get_if<std::string>(&value)) return text->empty();
    const auto* texts = std::get_if<std::vector<std::string>>(&value);
    return texts != nullptr &&
           (texts->empty() || std::find(texts->begin(), texts->end(), "") != texts->end());
  }

  bool must_exist(Path path) const {
    if (path == Path::must_exist) return files_ != Files::may_be_missing;
    return path == Path::to_start && files_ == Files::must_exist;
  }

  void resolve(const std::string& key, std::string& path, Path kind) {
    if (path.empty()) return;
    const std::string written = path;
    for (std::size_t at = path.find("${"); at != std::string::npos; at = path.find("${", at)) {
      const std::size_t close = path.find('}', at);
      if (close == std::string::npos) return problem(key, "'" + written + "' lacks a '}'");
      const std::string name = path.substr(at + 2, close - at - 2);
      const char* value = std::getenv(name.c_str());
      if (value == nullptr || *value == '\0') {
        return problem(
            key,
            "'" + written + "' needs the environment variable " + name + ", which is not set" +
                (name == "CONVOY_DATA" ? " (the folder of your data sets; see docs/data-sets.md)"
                                       : ""));
      }
      path.replace(at, close - at + 1, value);
      at += std::string(value).size();
    }
    std::filesystem::path result(path);
    if (result.is_relative()) {
      const std::string from = document_.overridden(full(key)) ? "." : document_.folder();
      result = std::filesystem::path(from) / result;
    }
    path = std::filesystem::absolute(result).lexically_normal().string();
    std::error_code ignored;
    if (must_exist(kind) && !std::filesystem::exists(path, ignored)) {
      problem(key, "there is no file or folder " + path);
    }
  }

  const Document& document_;
  const Vocabulary& vocabulary_;
  Files files_;
  std::vector<const toml::table*> tables_;
  std::vector<std::string> path_;
  std::vector<std::vector<std::string>> known_{1};
  std::set<std::string> all_known_;  // with their tables
  std::set<std::string> others_;     // of kinds that are not chosen, with their tables
  std::set<std::string> given_;
  std::set<std::string> present_;
  std::set<std::string> unread_;  // of another type
  std::set<std::string> complained_;
  std::vector<std::string> problems_;
};

}  // namespace convoy::train
