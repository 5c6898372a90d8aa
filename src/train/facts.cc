#include "train/facts.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/toml_text.h"
#include "convoy/base/error.h"

namespace convoy::train {
namespace {

constexpr std::string_view kPrefix = "task.";

std::string key_of(const std::string& name) { return std::string(kPrefix) + name; }

std::string element(const std::vector<std::string>& list, std::size_t i) {
  return i < list.size() ? "'" + list[i] + "'" : "nothing";
}

// As a checkpoint has them: texts that are not UTF-8 are others there.
TaskFacts as_saved(const TaskFacts& facts) {
  Manifest manifest;
  note(facts, manifest);
  return facts_of(manifest_from_json(to_json(manifest), "the facts"));
}

// A number that is none is the same as another that is none.
bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool is_same(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a == b;
}

// Calls `differs` with (name, now, then) for those that are in both and not the same.
template <class Facts, class Differs>
void compare(const Task& task, const Facts& now, const Facts& then, const Differs& differs) {
  for (const auto& [name, value] : now) {
    const auto saved = then.find(name);
    if (saved == then.end() || is_same(saved->second, value) || task.may_differ(name)) continue;
    differs(name, value, saved->second);
  }
}

}  // namespace

data::Shape image_of(const TaskFacts& facts) {
  const auto number = [&facts](const char* key) {
    const auto found = facts.numbers.find(key);
    return found == facts.numbers.end() ? 0 : static_cast<int>(found->second);
  };
  return {number("image.channels"), number("image.height"), number("image.width")};
}

void note(const TaskFacts& facts, Manifest& manifest) {
  for (const auto& [name, number] : facts.numbers) manifest.numbers[key_of(name)] = number;
  for (const auto& [name, list] : facts.lists) manifest.lists[key_of(name)] = list;
}

TaskFacts facts_of(const Manifest& manifest) {
  TaskFacts facts;
  for (const auto& [key, number] : manifest.numbers) {
    if (key.starts_with(kPrefix)) facts.numbers[key.substr(kPrefix.size())] = number;
    // Format 1 had images only.
    if (key.starts_with("input.")) facts.numbers["image." + key.substr(6)] = number;
  }
  for (const auto& [key, list] : manifest.lists) {
    if (key.starts_with(kPrefix)) facts.lists[key.substr(kPrefix.size())] = list;
  }
  if (!manifest.classes.empty()) facts.lists["classes"] = manifest.classes;
  return facts;
}

void check_facts(const Task& task, const Manifest& saved, const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    throw UsageError(path + " can't be resumed with this data: " + why);
  };
  const TaskFacts now = as_saved(task.facts()), then = facts_of(saved);
  compare(task, now.lists, then.lists, [&](const auto& name, const auto& mine, const auto& theirs) {
    const auto first = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end()).first;
    const auto i = static_cast<std::size_t>(first - mine.begin());
    refuse("its " + name + " have " + element(mine, i) + " as number " + std::to_string(i) +
           ", in the checkpoint that is " + element(theirs, i));
  });
  compare(task, now.numbers, then.numbers, [&](const auto& name, double mine, double theirs) {
    refuse("its " + name + " is " + shortest(mine) + ", in the checkpoint it is " +
           shortest(theirs));
  });
}

}  // namespace convoy::train
