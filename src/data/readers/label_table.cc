#include "data/readers/label_table.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "data/packed/names.h"

namespace convoy::data {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 32;

// A line with the names of its classes.
struct NamedLine {
  TableLine line;
  std::vector<std::string> classes;
};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// "a, b" -> {"a", "b"}; nothing of nothing.
std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  if (trimmed(text).empty()) return names;
  while (true) {
    const std::size_t end = std::min(text.find(','), text.size());
    names.emplace_back(trimmed(text.substr(0, end)));
    if (end == text.size()) return names;
    text.remove_prefix(end + 1);
  }
}

NamedLine parse_line(std::string_view text, std::size_t number, const std::string& where) {
  const std::size_t tab = std::min(text.find('\t'), text.size());
  const std::string_view path = text.substr(0, tab);
  const std::string_view classes = text.substr(std::min(tab + 1, text.size()));
  if (path.empty() || classes.find('\t') != classes.npos)
    throw UsageError(where + " is not 'PATH<tab>CLASS,CLASS'");
  NamedLine line{{std::filesystem::path(path).lexically_normal().native(), number, {}},
                 split_names(classes)};
  for (const std::string& name : line.classes)
    if (name.empty()) throw UsageError(where + " has an empty name of a class");
  return line;
}

}  // namespace

const TableLine* ReadTable::find(std::string_view path) const {
  const auto at =
      std::lower_bound(lines.begin(), lines.end(), path,
                       [](const TableLine& line, std::string_view p) { return line.path < p; });
  return at != lines.end() && at->path == path ? &*at : nullptr;
}

ReadTable read_label_table(const LabelTable& table) {
  std::vector<std::string> classes;
  if (!table.class_names.empty()) {
    classes = read_class_names(table.class_names);
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (classes[i].find(',') == std::string::npos && trimmed(classes[i]) == classes[i]) continue;
      throw UsageError(table.class_names + ": line " + std::to_string(i + 1) + ", '" + classes[i] +
                       "', is no name for a table: those hold no commas, and neither begin nor "
                       "end with a space");
    }
  }
  return parse_label_table(read_text_file(table.labels, kMostBytes), table, std::move(classes));
}

ReadTable parse_label_table(std::string_view text, const LabelTable& table,
                            std::vector<std::string> classes) {
  const std::string& file = table.labels;
  const auto where = [&file](std::size_t line) { return file + ": line " + std::to_string(line); };
  std::vector<NamedLine> lines;
  text = without_mark(text);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back(parse_line(line, number, where(number)));
  }
  ReadTable result;
  result.classes = std::move(classes);
  if (result.classes.empty()) {
    for (const NamedLine& line : lines)
      result.classes.insert(result.classes.end(), line.classes.begin(), line.classes.end());
    result.classes = distinct(std::move(result.classes));
    if (result.classes.empty())
      throw UsageError(file +
                       ": no image has a label (a tab stands between a path and its classes)");
  }
  const ClassNumbers number_of(result.classes);
  for (NamedLine& named : lines) {
    TableLine& line = result.lines.emplace_back(std::move(named.line));
    for (const std::string& name : named.classes) {
      line.labels.push_back(number_of[name]);
      if (line.labels.back() >= 0) continue;
      throw UsageError(where(line.number) + " has the class '" + name +
                       "', which is not among the " + std::to_string(result.classes.size()) +
                       " of " + table.class_names);
    }
    std::sort(line.labels.begin(), line.labels.end());
    const auto again = std::adjacent_find(line.labels.begin(), line.labels.end());
    if (again == line.labels.end()) continue;
    throw UsageError(where(line.number) + " has the class '" +
                     result.classes[static_cast<std::size_t>(*again)] + "' twice");
  }
  std::sort(result.lines.begin(), result.lines.end(), [](const TableLine& a, const TableLine& b) {
    return std::tie(a.path, a.number) < std::tie(b.path, b.number);
  });
  const auto twice =
      std::adjacent_find(result.lines.begin(), result.lines.end(),
                         [](const TableLine& a, const TableLine& b) { return a.path == b.path; });
  if (twice != result.lines.end())
    throw UsageError(where(twice[1].number) + " is the second one for " + twice->path);
  return result;
}

}  // namespace convoy::data
