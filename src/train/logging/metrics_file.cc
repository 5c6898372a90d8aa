#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/append.h"
#include "convoy/base/error.h"
#include "convoy/train/metrics.h"
#include "train/logging/keep_lines.h"

namespace convoy::train {
namespace {

using Json = nlohmann::json;

// Names of classes and files need not be UTF-8, lines of JSON must be.
std::string json_text(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The shortest text that reads back as the same number.
std::string json_number(double number) {
  if (!std::isfinite(number)) return "null";
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

template <class Values, class Text>
std::string json_list(const Values& values, Text&& text) {
  std::string list;
  for (const auto& value : values) list += (list.empty() ? "" : ", ") + text(value);
  return "[" + list + "]";
}

std::string line_of(const MetricsRow& row) {
  std::string line =
      "{\"kind\": " + json_text(row.kind) + ", \"step\": " + std::to_string(row.step);
  for (const auto& [name, value] : row.numbers) {
    line += ", " + json_text(name) + ": " + json_number(value);
  }
  for (const auto& [name, value] : row.strings) {
    line += ", " + json_text(name) + ": " + json_text(value);
  }
  for (const auto& [name, values] : row.lists) {
    line += ", " + json_text(name) + ": " + json_list(values, json_number);
  }
  for (const auto& [name, values] : row.names) {
    line += ", " + json_text(name) + ": " + json_list(values, json_text);
  }
  return line + "}\n";
}

bool belongs(const std::string& line, std::int64_t last_step, bool evaluated) {
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) return false;
  const auto step = row.find("step");
  if (step == row.end() || !step->is_number_integer()) return false;
  const auto at = step->get<std::int64_t>();
  if (at != last_step) return at < last_step;
  // The last step's target is another one's, or told again.
  const std::string kind = row.value("kind", "");
  return kind != "target" && (evaluated || kind != "evaluation");
}

Descriptor open_metrics(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0666));
  if (!file.open()) throw Failure("cannot write " + path + ": " + std::strerror(errno));
  return file;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::int64_t resumed_at, bool evaluated)
    : path_(path) {
  struct stat status {};
  if (resumed_at >= 0 && ::stat(path.c_str(), &status) == 0) {
    keep_lines(path, [&](const std::string& line) { return belongs(line, resumed_at, evaluated); });
  }
  file_ = open_metrics(path, resumed_at < 0 ? O_TRUNC : 0);
}

bool MetricsFile::add(const MetricsRow& row) {
  struct stat status {};
  const bool removed = ::fstat(file_.get(), &status) == 0 && status.st_nlink == 0;
  if (removed) file_ = open_metrics(path_, 0);
  append_whole(file_.get(), line_of(row), path_);
  return !removed;
}

}  // namespace convoy::train
