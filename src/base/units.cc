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
  if (!std::isfinite(seconds)) return std::isnan(seconds) ? "nan" : seconds > 0 ? "inf" : "-inf";
  if (seconds < 0) return std::string("-").append(format_seconds(-seconds));
  if (seconds < 1e-3) return three_digits(seconds * 1e6, "us");
  if (seconds < 1) return three_digits(seconds * 1e3, "ms");
  if (seconds < 60) return three_digits(seconds, "s");
  constexpr std::uint64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  constexpr double kYear = 365.25 * kDay;
  if (seconds >= kYear) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.3g years", seconds / kYear);
    return text.data();
  }
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  const auto two = [whole](std::uint64_t large, const char* name, std::uint64_t small,
                           const char* rest) {
    return std::to_string(whole / large) + " " + name + " " +
           std::to_string(whole % large / small) + " " + rest;
  };
  if (whole < kHour) return two(kMinute, "min", 1, "s");
  return whole < 2 * kDay ? two(kHour, "h", kMinute, "min") : two(kDay, "d", kHour, "h");
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
