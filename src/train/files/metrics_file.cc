#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/metrics.h"
#include "train/files/append.h"

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

std::string line_of(const MetricsRow& row) {
  std::string line =
      "{\"kind\": " + json_text(row.kind) + ", \"step\": " + std::to_string(row.step);
  for (const auto& [name, value] : row.numbers) {
    line += ", " + json_text(name) + ": " + json_number(value);
  }
  for (const auto& [name, value] : row.strings) {
    line += ", " + json_text(name) + ": " + json_text(value);
  }
  return line + "}\n";
}

bool belongs(const std::string& line, std::int64_t last_step) {
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) return false;
  const auto step = row.find("step");
  return step != row.end() && step->is_number_integer() && step->get<std::int64_t>() <= last_step;
}

// Copies what belongs to steps up to `last_step`, complete lines only.
void drop_later_rows(const std::string& path, std::int64_t last_step) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::ifstream old(path, std::ios::binary);
  if (!old) throw Failure("cannot read " + path + ": " + std::strerror(errno));
  AtomicFile kept(path);
  std::string piece;
  std::string line;
  while (std::getline(old, line)) {
    if (old.eof()) break;  // no line feed: the row was being written
    if (!belongs(line, last_step)) continue;
    piece += line + "\n";
    if (piece.size() < kPiece) continue;
    kept.write(piece);
    piece.clear();
  }
  if (old.bad()) throw Failure("cannot read " + path + ": " + std::strerror(errno));
  kept.write(piece);
  kept.commit();
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::int64_t resumed_at) : path_(path) {
  struct stat status {};
  if (resumed_at >= 0 && ::stat(path.c_str(), &status) == 0) drop_later_rows(path, resumed_at);
  const int fresh = resumed_at < 0 ? O_TRUNC : 0;
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | fresh, 0666);
  if (fd_ < 0) throw Failure("cannot write " + path + ": " + std::strerror(errno));
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsFile::add(const MetricsRow& row) { append_whole(fd_, line_of(row), path_); }

}  // namespace convoy::train
