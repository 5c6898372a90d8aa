#include "base/hold.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <regex>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy {
namespace {

int rank_of_this_process() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  return -1;
}

std::optional<Hold> hold_of_this_process() {
  const char* text = std::getenv("CONVOY_TEST_HOLD");
  if (text == nullptr || *text == '\0') return std::nullopt;
  Hold hold = parse_hold(text);
  if (hold.rank >= 0 && hold.rank != rank_of_this_process()) return std::nullopt;
  return hold;
}

void wait_while_it_is_there(const std::string& path, std::string_view point) {
  write_file_atomically(path, std::to_string(getpid()) + " " + std::string(point) + "\n");
  while (::access(path.c_str(), F_OK) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

Hold parse_hold(const std::string& text) {
  static const std::regex form("([a-z.]+)(?::([1-9][0-9]{0,8})(\\+?)(?:@([0-9]{1,6}))?)?=(.+)");
  std::smatch parts;
  if (!std::regex_match(text, parts, form))
    throw UsageError("CONVOY_TEST_HOLD is '" + text + "', not POINT:COUNT+@RANK=FILE");
  Hold hold;
  hold.point = parts[1];
  if (parts[2].matched) hold.count = std::atol(parts[2].str().c_str());
  hold.every = parts[3].length() > 0;
  if (parts[4].matched) hold.rank = std::atoi(parts[4].str().c_str());
  hold.file = parts[5];
  return hold;
}

bool holds(const Hold& hold, std::string_view point) {
  return hold.point.ends_with('.') ? point.starts_with(hold.point) : point == hold.point;
}

void hold_at(std::string_view point) {
  static const std::optional<Hold> hold = hold_of_this_process();
  if (!hold || !holds(*hold, point)) return;
  static std::atomic<long> times{0};
  const long time = ++times;
  if (hold->every ? time % hold->count == 0 : time == hold->count)
    wait_while_it_is_there(hold->file, point);
}

}  // namespace convoy
