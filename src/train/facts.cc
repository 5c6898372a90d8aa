#include "train/facts.h"

#include <string>
#include <string_view>

namespace convoy::train {
namespace {

constexpr std::string_view kPrefix = "task.";

std::string key_of(const std::string& name) { return std::string(kPrefix) + name; }

}  // namespace

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

}  // namespace convoy::train
