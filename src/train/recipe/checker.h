// What is said of a recipe's values, key by key.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/toml_text.h"
#include "convoy/data/transform.h"
#include "train/recipe/fields.h"
#include "train/recipe/kinds.h"

namespace convoy::train {

class RecipeChecker {
 public:
  RecipeChecker(const Given& given, std::vector<std::string>& problems)
      : given_(given), problems_(problems) {}

  void expect(bool good, const std::string& problem) {
    if (!good) problems_.push_back(problem);
  }
  void at_least(const char* key, double value, double least) {
    expect(value >= least,
           std::string(key) + " is " + number(value) + "; it has to be at least " + number(least));
  }
  void within(const std::string& key, std::int64_t value, std::int64_t least, std::int64_t most) {
    expect(value >= least && value <= most, key + " is " + std::to_string(value) +
                                                "; it has to be " + std::to_string(least) + " to " +
                                                std::to_string(most));
  }
  // TOML has words for infinity and for what is no number.
  bool finite(const std::string& key, double value) {
    expect(std::isfinite(value), key + " is " + number(value) + "; it has to be a finite number");
    return std::isfinite(value);
  }
  // What becomes a number of 32 bits.
  bool finite_float(const std::string& key, double value) {
    if (!finite(key, value)) return false;
    const bool fits = std::abs(value) <= std::numeric_limits<float>::max();
    expect(fits, key + " is " + shortest(value) + ", more than a float can hold");
    return fits;
  }
  // Of a picture, in pixels.
  void side(const std::string& key, std::int64_t value) {
    expect(value >= 0 && value <= data::kMaxSide, key + " is " + std::to_string(value) +
                                                      "; it has to be 0 to " +
                                                      std::to_string(data::kMaxSide));
  }
  // Keys that only some choices have a use for.
  void only_for(const std::string& key, bool used, const std::string& whom) {
    expect(used || !given_(key), key + " is for " + whom);
  }
  // What keys say of their own values, in the table with this name.
  void values(const std::string& table, const Options& options) {
    for (const Option& option : options.specification()) {
      if (!option.check) continue;
      // Where a missing one is no mistake, its default is no answer either.
      if (option.required && !given_.present(table + "." + option.key)) continue;
      const std::string wrong = option.check(options.value(option.key));
      expect(wrong.empty(), table + "." + option.key + " " + wrong);
    }
  }
  // Whether all numbers of the table are finite that were given: whoever made a key may have given
  // it a default that is not.
  bool finite_values(const std::string& table, const Options& options) {
    bool all = true;
    for (const Option& option : options.specification()) {
      const std::string key = table + "." + option.key;
      if (!given_(key)) continue;
      const Value& value = options.value(option.key);
      if (const auto* one = std::get_if<double>(&value)) all = finite(key, *one) && all;
      if (const auto* list = std::get_if<std::vector<double>>(&value)) {
        for (const double one : *list) all = finite(key, one) && all;
      }
    }
    return all;
  }
  // Keys of other kinds of this sort. `whose` stands before their names, before one and several.
  template <class Kind>
  void no_others(const std::string& table, const Kinds<Kind>& kinds, const Kind& chosen,
                 const std::pair<std::string, std::string>& whose) {
    std::vector<std::string> own, others;
    for (const Option& option : chosen.options) own.push_back(option.key);
    for (const auto& kind : kinds) {
      for (const Option& option : kind->options) {
        const auto is_known = [&option](const std::vector<std::string>& keys) {
          return std::find(keys.begin(), keys.end(), option.key) != keys.end();
        };
        if (is_known(own) || is_known(others)) continue;
        others.push_back(option.key);
        const std::vector<std::string> owners = owners_of(kinds, option.key);
        only_for(table + "." + option.key, false,
                 (owners.size() == 1 ? whose.first : whose.second) + all_of_words(owners) +
                     ", not " + chosen.name + own_text(own));
      }
    }
  }
  static std::string own_text(const std::vector<std::string>& own) {
    if (own.empty()) return ", which has no keys of its own";
    return (own.size() == 1 ? ", whose own key is " : ", whose own keys are ") + all_of_words(own);
  }
  template <class Kind>
  static std::vector<std::string> owners_of(const Kinds<Kind>& kinds, const std::string& key) {
    std::vector<std::string> owners;
    for (const auto& kind : kinds) {
      const bool has = std::any_of(kind->options.begin(), kind->options.end(),
                                   [&key](const Option& option) { return option.key == key; });
      if (has) owners.push_back(kind->name);
    }
    return owners;
  }
  static std::string number(double value) { return plain_number(value); }

 private:
  const Given& given_;
  std::vector<std::string>& problems_;
};

}  // namespace convoy::train
