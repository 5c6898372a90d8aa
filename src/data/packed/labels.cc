#include "data/packed/labels.h"

#include <algorithm>
#include <charconv>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/names.h"
#include "data/packed/names.h"
#include "data/readers/memory_dataset.h"

namespace convoy::data {
namespace {

// Numbers without names get digits for names: more classes than that are a mistake.
constexpr std::int64_t kMostDigits = std::int64_t{1} << 24;
constexpr std::size_t kMostList = std::size_t{1} << 32;  // bytes

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

Labeled use_numbers(const LabelRules& rules, std::span<const Unlabeled> images) {
  Labeled result;
  std::vector<std::string>& classes = result.classes;
  classes = rules.given.empty() ? rules.recorded : rules.given;
  std::int64_t largest = kNoLabel;
  for (const Unlabeled& image : images) {
    const std::string name = rules.source + ": " + printable(image.name);
    if (!image.numbers) {
      throw UsageError(name +
                       " has no .cls member beside it (nor .cls.json), which says its label; "
                       "others have");
    }
    result.labels.add(*image.numbers);
    if (image.numbers->empty()) continue;
    const std::int64_t label = image.numbers->back();
    largest = std::max(largest, label);
    if (!classes.empty() && label >= static_cast<std::int64_t>(classes.size())) {
      throw UsageError(name + " has the label " + std::to_string(label) + "; there are " +
                       std::to_string(classes.size()) + " classes");
    }
  }
  if (!classes.empty()) return result;
  if (largest == kNoLabel) {
    throw UsageError(rules.source +
                     ": no image has a label, and nothing names classes: give them with --classes");
  }
  if (largest >= kMostDigits) {
    throw UsageError(rules.source + ": a label of " + std::to_string(largest) +
                     ", and no names of classes: give them with --classes");
  }
  classes = digit_names(static_cast<std::size_t>(largest) + 1);
  return result;
}

// Images and lines of the table have to be the same.
Labeled use_table(const LabelRules& rules, std::span<const Unlabeled> images) {
  const ReadTable& table = *rules.table;
  Labeled result;
  result.classes = table.classes;
  std::vector<bool> used(table.lines.size());
  for (const Unlabeled& image : images) {
    const TableLine* line = table.find(image.name);
    if (line == nullptr) {
      throw UsageError(rules.source + ": " + printable(image.name) + " has no line in " +
                       rules.table_file + "; for an image without labels, write its path alone");
    }
    used[static_cast<std::size_t>(line - table.lines.data())] = true;
    const std::vector<std::uint32_t> labels(line->labels.begin(), line->labels.end());
    result.labels.add(labels);
  }
  const auto unused = std::find(used.begin(), used.end(), false) - used.begin();
  if (static_cast<std::size_t>(unused) == used.size()) return result;
  const TableLine& line = table.lines[static_cast<std::size_t>(unused)];
  throw UsageError(rules.table_file + ": line " + std::to_string(line.number) + ": '" + line.path +
                   "' is no picture in " + rules.source +
                   " (a tab stands between a path and its classes)");
}

// The lines of a list, each of which is for one image.
class ListLines {
 public:
  explicit ListLines(const LabelRules& rules)
      : rules_(rules),
        folders_(std::any_of(rules.list.begin(), rules.list.end(), [](const auto& line) {
          return line.first.find('/') != std::string::npos;
        })) {}

  // An image's class; empty where it is not listed. A list that names no folders at all is one of
  // names alone: what lies in a folder goes by the last part of its path.
  std::string_view class_of(std::string_view image) {
    auto line = rules_.list.find(image);
    if (line == rules_.list.end() && !folders_)
      line = rules_.list.find(image.substr(image.rfind('/') + 1));
    if (line == rules_.list.end()) return {};
    const auto [of, added] = taken_.emplace(line->first, image);
    if (!added && of->second != image) {
      throw UsageError(rules_.list_file + ": the line of " + in_quotes(line->first) +
                       " would be for " + std::string(of->second) + " and for " +
                       std::string(image) + " of " + rules_.source +
                       ": name images by their paths, each in a line of its own");
    }
    return line->second;
  }
  std::size_t unused() const { return rules_.list.size() - taken_.size(); }

 private:
  const LabelRules& rules_;
  bool folders_;
  std::map<std::string_view, std::string_view> taken_;  // the name in a line -> its image
};

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
                     "'; give a table of any number of classes for each image with --label-table");
  }
}

}  // namespace

void read_label_list(const std::string& file, LabelRules& rules) {
  rules.list_file = file;
  const std::string text = read_text_file(file, kMostList);
  std::string_view rest = without_mark(text);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = line.substr(0, line.find_last_not_of(" \t") + 1);  // or "cat " would be another class
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

std::optional<std::vector<std::uint32_t>> parse_label_numbers(std::string_view json) {
  const auto skip_space = [&json] {
    json.remove_prefix(std::min(json.find_first_not_of(" \t\r\n"), json.size()));
  };
  const auto take = [&](char wanted) {
    skip_space();
    if (!json.starts_with(wanted)) return false;
    json.remove_prefix(1);
    return true;
  };
  std::vector<std::uint32_t> labels;
  if (!take('[')) return {};
  bool end = take(']');
  while (!end) {
    skip_space();
    const auto [rest, error] =
        std::from_chars(json.data(), json.data() + json.size(), labels.emplace_back());
    if (error != std::errc{}) return {};
    json.remove_prefix(static_cast<std::size_t>(rest - json.data()));
    end = take(']');
    if (!end && !take(',')) return {};
  }
  skip_space();
  std::sort(labels.begin(), labels.end());
  const bool twice = std::adjacent_find(labels.begin(), labels.end()) != labels.end();
  if (!json.empty() || twice) return {};
  return labels;
}

Labeled assign_labels(const LabelRules& rules, std::span<const Unlabeled> images) {
  if (rules.table) return use_table(rules, images);
  const bool numbers = std::any_of(images.begin(), images.end(), [](const Unlabeled& image) {
    return image.numbers.has_value();
  });
  if (rules.list.empty() && numbers) return use_numbers(rules, images);
  Labeled result;
  std::vector<std::string>& classes = result.classes;
  classes = rules.given;
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
  ListLines lines(rules);
  for (const Unlabeled& image : images) {
    const std::string name = rules.source + ": " + printable(image.name);
    const std::string_view its_class =
        rules.list.empty() ? image.folder : lines.class_of(image.name);
    if (its_class.empty()) {
      throw UsageError(rules.list.empty()
                           ? name + " has no class: it lies in no folder, and nothing else says it"
                           : name + " is not listed in " + rules.list_file);
    }
    const std::int64_t label = number_of[its_class];
    if (label < 0) {
      throw UsageError(name + " is of the class " + in_quotes(its_class) +
                       ", which is not among the " + std::to_string(classes.size()) + " given");
    }
    const auto number = static_cast<std::uint32_t>(label);
    result.labels.add(std::span(&number, 1));
  }
  result.unused_lines = lines.unused();
  return result;
}

}  // namespace convoy::data
