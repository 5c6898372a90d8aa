// How a strategy says what is wrong with the keys of its table. Torch-free.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/names.h"

namespace convoy::train {

// "a, b or c".
inline std::string any_of_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

// Of the table with this name.
class KeyChecker {
 public:
  KeyChecker(std::string table, std::vector<std::string>& problems)
      : table_(std::move(table)), problems_(problems) {}

  std::string key(const std::string& name) const { return table_ + "." + name; }
  void expect(bool good, const std::string& problem) {
    if (!good) problems_.push_back(problem);
  }
  void within(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    expect(value >= least && value <= most, key(name) + " is " + std::to_string(value) +
                                                "; it has to be " + std::to_string(least) + " to " +
                                                std::to_string(most));
  }
  void one_of(const char* name, const std::string& value, const std::vector<std::string>& words) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return;
    const std::string near = nearest_name(value, words);
    problems_.push_back(key(name) + " is '" + value + "'; it can be " + any_of_words(words) +
                        (near.empty() ? "" : "; did you mean " + near + "?"));
  }

 private:
  const std::string table_;
  std::vector<std::string>& problems_;
};

}  // namespace convoy::train
