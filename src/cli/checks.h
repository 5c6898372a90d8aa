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

// For CLI::Option::check: a whole number from 1 to `most`.
inline CLI::Validator positive_integer(int most = std::numeric_limits<int>::max()) {
  const auto problem = [most](const std::string& text) -> std::string {
    int number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc{} && stop == end && number >= 1 && number <= most) return "";
    return "'" + text + "' is not a whole number from 1 to " + std::to_string(most);
  };
  return {problem, ""};
}

// For CLI::Option::check: a finite number above 0.
inline CLI::Validator positive_number() {
  const auto problem = [](const std::string& text) -> std::string {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    const bool whole = !text.empty() && *end == '\0';
    return whole && number > 0 && std::isfinite(number) ? ""
                                                        : "'" + text + "' is not a number above 0";
  };
  return {problem, ""};
}

}  // namespace convoy::cli
