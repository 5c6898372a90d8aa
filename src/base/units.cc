#include "convoy/base/units.h"

#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "convoy/base/error.h"

namespace convoy {
namespace {

std::string three_digits(double value, const char* unit) {
  std::array<char, 48> text{};
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, value, unit);
  return text.data();
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr std::array units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  if (value == std::floor(value)) {
    return std::to_string(static_cast<std::uint64_t>(value)) + " " + units[unit];
  }
  return three_digits(value, units[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 0) return std::string("-").append(format_seconds(-seconds));
  if (seconds < 1e-3) return three_digits(seconds * 1e6, "us");
  if (seconds < 1) return three_digits(seconds * 1e3, "ms");
  if (seconds < 60) return three_digits(seconds, "s");
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

std::uint64_t parse_bytes(const std::string& text) {
  const auto bad = [&]() -> UsageError {
    return UsageError("'" + text + "' is not a size; write for example 512, 64k, 93MiB or 1.5GB");
  };
  char* rest = nullptr;
  const double value = std::strtod(text.c_str(), &rest);
  if (rest == text.c_str() || !(value >= 0)) throw bad();
  std::string unit;
  for (; *rest != '\0'; ++rest) {
    if (*rest != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*rest)));
  }
  double factor = 1;
  if (!unit.empty() && unit != "b") {
    const std::size_t power = std::string("kmgt").find(unit[0]);
    if (power == std::string::npos) throw bad();
    const std::string suffix = unit.substr(1);
    if (suffix != "" && suffix != "b" && suffix != "i" && suffix != "ib") throw bad();
    factor = std::pow(suffix == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = value * factor;
  if (bytes > 9e18) throw bad();
  return static_cast<std::uint64_t>(std::llround(bytes));
}

}  // namespace convoy
