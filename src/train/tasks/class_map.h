// Classes that differ from the labels of the data: even and odd digits, say. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "convoy/train/recipe.h"

namespace convoy::train {

// What task.options.classes and class_names say.
class ClassMap {
 public:
  // The keys of a task that has such a map.
  static std::vector<Option> keys();
  // Appends what makes no sense in them, whatever the data.
  static void check(const Recipe& recipe, std::vector<std::string>& problems);

  // Reads the map of a recipe that check() had nothing to say about.
  explicit ClassMap(const Recipe& recipe);

  // Whether labels are classes as they are.
  bool empty() const { return classes_.empty(); }
  // The names of the classes of data whose labels have these names: those of the recipe, or else of
  // all labels of the class. Throws UsageError where there are more or fewer labels than the map
  // has; `what` names the data.
  std::vector<std::string> names(const std::vector<std::string>& labels,
                                 const std::string& what) const;
  // Gives for each label the name of its class, which is one of these.
  std::vector<std::string> each(const std::vector<std::string>& names) const;
  // The class of a label. Throws UsageError for one that names() has not seen; `sample` has it.
  std::int64_t operator()(std::int64_t label, std::size_t sample) const;

 private:
  std::vector<std::int64_t> classes_;  // by label
  std::vector<std::string> names_;     // may be empty
};

}  // namespace convoy::train
