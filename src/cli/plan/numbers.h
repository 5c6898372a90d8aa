// Numbers on the command line of a plan, and in what it prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy::cli {

// "0.3": finite. UsageError naming the option.
double parse_number(const std::string& text, const char* option);
// "0.3,0.1": finite numbers. UsageError naming the option and the entry.
std::vector<double> parse_numbers(const std::string& text, const char* option);
// Reads such numbers where all are above 0; gives each once, ascending.
std::vector<double> parse_positive_numbers(const std::string& text, const char* option);
// "16,32": whole numbers from 1 on, each once, ascending.
std::vector<std::int64_t> parse_counts(const std::string& text, const char* option);
// "90", "90s", "30m", "2h", in seconds. UsageError naming the option.
double parse_duration(const std::string& text, const char* option);

// "1gbit", "22.5MB": bytes per second. UsageError naming the option.
double parse_rate(const std::string& text, const char* option);
// "50us", "1.5ms", "0.001s": seconds, from 0 on.
double parse_latency(const std::string& text, const char* option);

// Three digits that count: "410", "1.24e+06", "0.0231".
std::string short_text(double value);

}  // namespace convoy::cli
