#include "cli/plan/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/toml_text.h"
#include "cli/bench/lists.h"
#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {
namespace {

bool read(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(value);
}

template <class T>
std::vector<T> ascending(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace

double parse_number(const std::string& text, const char* option) {
  double value = 0;
  if (!read(text, value))
    throw UsageError(std::string(option) + ": '" + text + "' is no number; it takes one");
  return value;
}

std::vector<double> parse_numbers(const std::string& text, const char* option) {
  std::vector<double> numbers;
  for (const std::string& part : split_list(text, option)) {
    double value = 0;
    if (!read(part, value)) throw UsageError(std::string(option) + ": '" + part + "' is no number");
    numbers.push_back(value);
  }
  return numbers;
}

std::vector<double> parse_positive_numbers(const std::string& text, const char* option) {
  const std::vector<double> numbers = parse_numbers(text, option);
  for (const double number : numbers) {
    if (number <= 0)
      throw UsageError(std::string(option) + ": " + shortest(number) + " is not above 0");
  }
  return ascending(numbers);
}

std::vector<std::int64_t> parse_counts(const std::string& text, const char* option) {
  std::vector<std::int64_t> counts;
  for (const std::string& part : split_list(text, option)) {
    std::int64_t count = 0;
    const char* end = part.data() + part.size();
    const auto [stop, error] = std::from_chars(part.data(), end, count);
    if (error != std::errc{} || stop != end || count < 1)
      throw UsageError(std::string(option) + ": '" + part + "' is no whole number from 1 on");
    counts.push_back(count);
  }
  return ascending(counts);
}

double parse_duration(const std::string& text, const char* option) {
  constexpr double kMinute = 60;
  double unit = 1;
  std::string number = text;
  if (!number.empty()) {
    const char last = number.back();
    if (last == 'm') unit = kMinute;
    if (last == 'h') unit = kMinute * kMinute;
    if (last == 's' || last == 'm' || last == 'h') number.pop_back();
  }
  double value = 0;
  if (!read(number, value) || value <= 0) {
    throw UsageError(std::string(option) + ": '" + text +
                     "' is no length of time, as 90s, 30m, 2h");
  }
  return value * unit;
}

double parse_rate(const std::string& text, const char* option) {
  constexpr std::pair<const char*, double> kUnits[] = {
      {"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}};
  for (const auto& [unit, bytes] : kUnits) {
    double value = 0;
    if (!text.ends_with(unit)) continue;
    if (read(text.substr(0, text.size() - std::strlen(unit)), value) && value > 0)
      return value * bytes;
  }
  try {
    if (const auto bytes = static_cast<double>(parse_bytes(text)); bytes > 0) return bytes;
  } catch (const UsageError&) {
    // Neither is it this.
  }
  throw UsageError(std::string(option) + ": '" + text + "' is no rate, as 1gbit or 100MB");
}

double parse_latency(const std::string& text, const char* option) {
  constexpr std::pair<const char*, double> kUnits[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  for (const auto& [unit, seconds] : kUnits) {
    double value = 0;
    if (!text.ends_with(unit)) continue;
    if (read(text.substr(0, text.size() - std::strlen(unit)), value) && value >= 0)
      return value * seconds;
  }
  throw UsageError(std::string(option) + ": '" + text + "' is no time, as 50us or 1ms");
}

std::string short_text(double value) {
  char text[32];
  if (std::isfinite(value) && std::fabs(value) >= 100 && std::fabs(value) < 1e6) {
    std::snprintf(text, sizeof text, "%.0f", value);
  } else {
    std::snprintf(text, sizeof text, "%.3g", value);
  }
  return text;
}

}  // namespace convoy::cli
