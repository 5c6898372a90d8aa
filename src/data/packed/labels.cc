#include "data/packed/labels.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "data/packed/names.h"
#include "data/readers/memory_dataset.h"

namespace convoy::data {
namespace {

// Numbers without names get digits for names: more classes than that are a mistake.
constexpr std::int64_t kMostDigits = std::int64_t{1} << 24;
constexpr std::size_t kMostList = std::size_t{1} << 32;  // bytes

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::vector<std::string> use_numbers(const LabelRules& rules, std::span<Unlabeled> images) {
  std::vector<std::string> classes = rules.given.empty() ? rules.recorded : rules.given;
  std::int64_t largest = 0;
  for (const Unlabeled& image : images) {
    const std::string name = rules.source + ": " + std::string(image.name);
    if (image.label == kNoLabel) {
      throw UsageError(name + " has no .cls member beside it, which says its label; others have");
    }
    largest = std::max(largest, image.label);
    if (!classes.empty() && image.label >= static_cast<std::int64_t>(classes.size())) {
      throw UsageError(name + " has the label " + std::to_string(image.label) + "; there are " +
                       std::to_string(classes.size()) + " classes");
    }
  }
  if (!classes.empty()) return classes;
  if (largest >= kMostDigits) {
    throw UsageError(rules.source + ": a label of " + std::to_string(largest) +
                     ", and no names of classes: give them with --classes");
  }
  return digit_names(static_cast<std::size_t>(largest) + 1);
}

// The class that the list has for a name, for its last part otherwise.
std::string_view listed(const LabelRules& rules, std::string_view name) {
  auto at = rules.list.find(name);
  if (at == rules.list.end()) at = rules.list.find(name.substr(name.rfind('/') + 1));
  return at == rules.list.end() ? std::string_view() : std::string_view(at->second);
}

// "dog, cat" where there are the classes dog and cat. Names of classes may hold commas, too.
bool names_several(std::string_view text, const ClassNumbers& number_of) {
  if (text.find(',') == text.npos || number_of[text] >= 0) return false;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string_view name = text.substr(0, end);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (number_of[name] < 0) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

// A table of many labels would make a class of each set of them.
void refuse_several(const LabelRules& rules, std::vector<std::string> classes) {
  const auto has_comma = [](const std::string& name) { return name.find(',') != name.npos; };
  if (rules.given.empty()) std::erase_if(classes, has_comma);
  const ClassNumbers number_of(classes);
  for (const auto& [name, its_class] : rules.list) {
    if (!names_several(its_class, number_of)) continue;
    throw UsageError(rules.list_file + ": " + name + " has several classes, '" + its_class +
                     "'; a packed record has one. The reader image_folder takes many");
  }
}

}  // namespace

void read_label_list(const std::string& file, LabelRules& rules) {
  rules.list_file = file;
  const std::string text = read_text_file(file, kMostList);
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    // Names of images may hold spaces if a tab divides.
    const std::size_t name_end = line.find(line.find('\t') != line.npos ? '\t' : ' ');
    const std::size_t class_begin =
        name_end == line.npos ? name_end : line.find_first_not_of(" \t", name_end);
    if (name_end == 0 || class_begin == line.npos) {
      throw UsageError(file + ": line " + std::to_string(number) +
                       " is not 'NAME CLASS', the name of an image and of its class");
    }
    const auto [at, added] = rules.list.emplace(plain_path(line.substr(0, name_end)),
                                                std::string(line.substr(class_begin)));
    if (!added) {
      throw UsageError(file + ": line " + std::to_string(number) + " is the second one for " +
                       at->first);
    }
  }
  if (rules.list.empty()) throw UsageError(file + ": no line 'NAME CLASS' in it");
}

std::vector<std::string> assign_labels(const LabelRules& rules, std::span<Unlabeled> images) {
  const bool numbers = std::any_of(images.begin(), images.end(),
                                   [](const Unlabeled& image) { return image.label != kNoLabel; });
  if (rules.list.empty() && numbers) return use_numbers(rules, images);
  std::vector<std::string> classes = rules.given;
  if (classes.empty() && !rules.list.empty()) {
    for (const auto& [name, its_class] : rules.list) classes.push_back(its_class);
    classes = distinct(std::move(classes));
  } else if (classes.empty()) {
    for (const Unlabeled& image : images) {
      if (image.folder.empty()) continue;  // refused below
      // Neighbors are mostly of one class.
      if (classes.empty() || image.folder != classes.back()) classes.emplace_back(image.folder);
    }
    classes = distinct(std::move(classes));
  }
  refuse_several(rules, classes);
  const ClassNumbers number_of(classes);
  for (Unlabeled& image : images) {
    const std::string name = rules.source + ": " + std::string(image.name);
    const std::string_view its_class =
        rules.list.empty() ? image.folder : listed(rules, image.name);
    if (its_class.empty()) {
      throw UsageError(rules.list.empty()
                           ? name + " has no class: it lies in no folder, and nothing else says it"
                           : name + " is not listed in " + rules.list_file);
    }
    image.label = number_of[its_class];
    if (image.label < 0) {
      throw UsageError(name + " is of the class " + quoted(its_class) +
                       ", which is not among the " + std::to_string(classes.size()) + " given");
    }
  }
  return classes;
}

}  // namespace convoy::data
