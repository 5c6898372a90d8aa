// What numbers on the command line may be, in words that a user understands.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

namespace convoy::cli {

inline constexpr int kMostRanks = 65536;

// For CLI::Option::check: a whole number from `least` to `most`.
inline CLI::Validator whole_number(int least, int most = std::numeric_limits<int>::max()) {
  const auto problem = [least, most](const std::string& text) -> std::string {
    int number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc{} && stop == end && number >= least && number <= most) return "";
    return "'" + text + "' is not a whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
  };
  return {problem, ""};
}
inline CLI::Validator positive_integer(int most = std::numeric_limits<int>::max()) {
  return whole_number(1, most);
}

// For CLI::Option::check: a finite number.
inline CLI::Validator finite_number() {
  const auto problem = [](const std::string& text) -> std::string {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    const bool whole = !text.empty() && *end == '\0';
    return whole && std::isfinite(number) ? "" : "'" + text + "' is not a number";
  };
  return {problem, ""};
}

// For CLI::Option::check: a finite number above 0.
inline CLI::Validator positive_number() {
  const auto problem = [](const std::string& text) -> std::string {
    if (finite_number()(text).empty() && std::strtod(text.c_str(), nullptr) > 0) return "";
    return "'" + text + "' is not a number above 0";
  };
  return {problem, ""};
}

}  // namespace convoy::cli
