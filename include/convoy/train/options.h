// Tables of a recipe whose keys a model, a reader, an optimizer, a schedule, a task or a strategy
// defines. Torch-free.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace convoy::train {

using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>,
                           std::vector<std::string>>;

// Says whether a key may have another value when a run goes on from a checkpoint.
enum class ResumeRule : std::uint8_t {
  free,   // counts from there on
  fits,   // the same, as long as what is saved fits: that is checked
  fixed,  // another value is refused
};

// This is one key: its default, whose type is the key's type, and one line for `--print-recipe`.
struct Option {
  enum class Kind : std::uint8_t {
    plain,
    path,  // text that names a file or folder which has to exist; or texts, each of them. Relative
           // to the recipe's folder; ${NAME} is an environment variable. Empty: none.
  };
  // Says what a value has to be, to be read behind the key ("has to be above 0"); empty: it is
  // right. The value has the key's type.
  using Check = std::function<std::string(const Value& value)>;
  std::string key;
  Value initial;
  std::string doc;
  Kind kind = Kind::plain;
  bool required = false;  // its default is no answer
  // Nothing: the rule of its table, see docs/training.md.
  std::optional<ResumeRule> resume = std::nullopt;
  std::string why = {};  // of a fixed one: what depends on it, as part of a sentence
  Check check = {};
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

}  // namespace convoy::train
