#include "convoy/train/vocabulary.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/train/optimizer_rule.h"
#include "convoy/train/schedule.h"

namespace convoy::train {

void check_new_kind(const std::string& sort, const std::string& name,
                    const std::vector<Option>& options, const std::vector<std::string>& common,
                    const std::vector<std::string>& taken) {
  const std::string article = sort.find_first_of("aeiou") == 0 ? "an " : "a ";
  if (name.empty()) throw UsageError(article + sort + " has to have a name");
  if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
    throw UsageError("there is " + article + sort + " '" + name +
                     "' already; give yours another name");
  }
  std::vector<std::string> keys;
  for (const Option& option : options) {
    if (std::find(common.begin(), common.end(), option.key) != common.end()) {
      throw UsageError("the " + sort + " '" + name + "' can't have a key '" + option.key +
                       "' of its own: every " + sort + " has one");
    }
    if (std::find(keys.begin(), keys.end(), option.key) != keys.end())
      throw UsageError("the " + sort + " '" + name + "' has two keys '" + option.key + "'");
    keys.push_back(option.key);
  }
}

Vocabulary::Vocabulary() : optimizers(built_in_optimizers()), schedules(built_in_schedules()) {}

}  // namespace convoy::train
