#include "train/tasks/class_map.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/toml_text.h"
#include "convoy/base/error.h"

namespace convoy::train {
namespace {

constexpr const char* kClassesKey = "classes";
constexpr const char* kNames = "class_names";
constexpr double kMost = 1e6;

// Whether all are whole numbers from 0 on; else what is wrong with the first that isn't.
bool check_numbers(const std::vector<double>& classes, std::vector<std::string>& problems) {
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const double number = classes[label];
    if (number >= 0 && number < kMost && std::floor(number) == number) continue;
    problems.push_back("task.options.classes: " + shortest(number) + ", for label " +
                       std::to_string(label) +
                       ", is no class; classes are whole numbers from 0 on");
    return false;
  }
  return true;
}

void check_names(const std::vector<std::string>& names, std::size_t classes,
                 std::vector<std::string>& problems) {
  if (names.empty()) return;
  if (classes == 0) {
    problems.emplace_back("task.options.class_names is for task.options.classes, which is empty");
  } else if (names.size() != classes) {
    problems.push_back("task.options.class_names has " + std::to_string(names.size()) +
                       " names, task.options.classes " + std::to_string(classes) + " classes");
  } else if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) {
    problems.emplace_back("task.options.class_names has a name twice");
  }
}

}  // namespace

std::vector<Option> ClassMap::keys() {
  return {{kClassesKey, std::vector<double>(),
           "the class of each label of the data, in its order; empty: the labels are the classes"},
          {kNames, std::vector<std::string>(),
           "names of these classes; empty: those of their labels together"}};
}

void ClassMap::check(const Recipe& recipe, std::vector<std::string>& problems) {
  const std::vector<double>& classes = recipe.task.options.numbers(kClassesKey);
  if (!check_numbers(classes, problems)) return;
  const std::set<double> used(classes.begin(), classes.end());
  double next = 0;
  for (const double number : used) {
    if (number != next) {
      problems.push_back("task.options.classes has a class " + shortest(number) +
                         ", but no label of class " + shortest(next) +
                         "; classes are counted from 0");
      return;
    }
    ++next;
  }
  check_names(recipe.task.options.texts(kNames), used.size(), problems);
}

ClassMap::ClassMap(const Recipe& recipe) {
  if (!recipe.task.options.has(kClassesKey)) return;  // a task of somebody else's
  names_ = recipe.task.options.texts(kNames);
  for (const double number : recipe.task.options.numbers(kClassesKey))
    classes_.push_back(static_cast<std::int64_t>(number));
}

std::vector<std::string> ClassMap::names(const std::vector<std::string>& labels,
                                         const std::string& what) const {
  if (empty()) return labels;
  if (labels.size() != classes_.size()) {
    throw UsageError("task.options.classes has " + std::to_string(classes_.size()) +
                     " numbers, but " + what + " " + std::to_string(labels.size()) +
                     " labels: it has to give the class of each");
  }
  if (!names_.empty()) return names_;
  const auto last = static_cast<std::size_t>(*std::max_element(classes_.begin(), classes_.end()));
  std::vector<std::string> names(last + 1);
  for (std::size_t label = 0; label < labels.size(); ++label) {
    std::string& name = names[static_cast<std::size_t>(classes_[label])];
    name += (name.empty() ? "" : "+") + labels[label];
  }
  return names;
}

std::vector<std::string> ClassMap::each(const std::vector<std::string>& names) const {
  std::vector<std::string> all;
  for (const std::int64_t number : classes_) all.push_back(names[static_cast<std::size_t>(number)]);
  return all;
}

std::int64_t ClassMap::operator()(std::int64_t label, std::size_t sample) const {
  if (empty()) return label;
  if (label < 0 || label >= static_cast<std::int64_t>(classes_.size())) {
    throw UsageError("sample " + std::to_string(sample) + " has the label " +
                     std::to_string(label) + "; task.options.classes has " +
                     std::to_string(classes_.size()) + " numbers");
  }
  return classes_[static_cast<std::size_t>(label)];
}

}  // namespace convoy::train
