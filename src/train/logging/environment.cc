#include "train/logging/environment.h"

#include <dlfcn.h>

#include <cstddef>
#include <ctime>
#include <exception>
#include <sstream>

#include "convoy/base/files.h"
#include "convoy/base/system.h"

namespace convoy::train {
namespace {

// Of a file that an unusual system may not have.
std::string file_text(const char* path) {
  try {
    return read_text_file(path);
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string command_line() {
  std::istringstream words(file_text("/proc/self/cmdline"));
  std::string line, word;
  while (std::getline(words, word, '\0')) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::string command_of_run() { return environment("CONVOY_COMMAND", command_line()); }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string processor_name() {
  std::istringstream lines(file_text("/proc/cpuinfo"));
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("model name")) continue;
    const std::size_t at = line.find(": ");
    return at == std::string::npos ? "" : line.substr(at + 2);
  }
  return "";
}

// From the driver itself, which has a name for each GPU whatever LibTorch was built with.
std::string gpu_name(const std::string& driver_file) {
  void* driver = ::dlopen(driver_file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return "";
  using Initialize = int (*)(unsigned);
  using Device = int (*)(int*, int);
  using Name = int (*)(char*, int, int);
  const auto initialize = reinterpret_cast<Initialize>(::dlsym(driver, "cuInit"));
  const auto device = reinterpret_cast<Device>(::dlsym(driver, "cuDeviceGet"));
  const auto name = reinterpret_cast<Name>(::dlsym(driver, "cuDeviceGetName"));
  if (initialize == nullptr || device == nullptr || name == nullptr) return "";
  int first = 0;
  char text[256] = "";
  if (initialize(0) != 0 || device(&first, 0) != 0 || name(text, sizeof text, first) != 0)
    return "";
  return text;
}

}  // namespace convoy::train
