// Tables of a recipe whose keys a model, a reader, an optimizer, a task or a strategy defines.
// Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace convoy::train {

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>,
                           std::vector<std::string>>;

// This is one key: its default, whose type is the key's type, and one line for `--print-recipe`.
struct Option {
  enum class Kind : std::uint8_t {
    plain,
    path,  // text that names a file or folder which has to exist; or texts, each of them. Relative
           // to the recipe's folder; ${NAME} is an environment variable. Empty: none.
  };
  std::string key;
  Value initial;
  std::string doc;
  Kind kind = Kind::plain;
  bool required = false;  // its default is no answer
};

// These are the values of such a table, complete with defaults.
class Options {
 public:
  Options() = default;
  explicit Options(const std::vector<Option>& specification);

  // Gives what the table holds. Throws std::logic_error for a key or type that is not in the
  // specification: that is a mistake of the program, not of the recipe.
  bool flag(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;
  const std::vector<std::string>& texts(std::string_view key) const;

  const std::vector<Option>& specification() const { return specification_; }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  const Value& value(std::string_view key) const;
  // The value has to have the key's type; an integer is taken for a number.
  void set(std::string_view key, Value value);
  bool operator==(const Options& other) const { return values_ == other.values_; }

 private:
  std::vector<Option> specification_;
  std::map<std::string, Value, std::less<>> values_;
};

struct Recipe;

// This is what a recipe may name, and the keys that belong to it.
struct Vocabulary {
  using Table = std::map<std::string, std::vector<Option>, std::less<>>;
  Table models;      // [model.options]
  Table readers;     // [data.train] and [data.validation]
  Table tasks;       // [task.options]
  Table strategies;  // a table named after the strategy
  Table optimizers;  // those of plugins: more keys in [optimizer]
  // The names of a model's layers, for models that are data. The numbers in the recipe may be
  // wrong: throws UsageError.
  using Layers = std::function<std::vector<std::string>(const Recipe& recipe)>;
  std::map<std::string, Layers, std::less<>> layers;
  // This is what models, readers, tasks, optimizers and strategies say about a recipe that chooses
  // them: each appends the mistakes that it finds, a line each. Asked once the types of all keys
  // are right, and before anything is opened.
  using Check = std::function<void(const Recipe& recipe, std::vector<std::string>& problems)>;
  std::map<std::string, Check, std::less<>> model_checks;
  std::map<std::string, Check, std::less<>> reader_checks;
  std::map<std::string, Check, std::less<>> task_checks;
  std::map<std::string, Check, std::less<>> optimizer_checks;
  std::map<std::string, Check, std::less<>> strategy_checks;
  // By task, these check the metrics that the recipe goes by in training.
  std::map<std::string, Check, std::less<>> metric_checks;
};

}  // namespace convoy::train
