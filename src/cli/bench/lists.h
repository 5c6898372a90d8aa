// Lists on the command line of benchmarks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace convoy::cli {

// The entries between commas, without spaces around them. Throws UsageError naming the option when
// one is empty.
std::vector<std::string> split_list(const std::string& text, const char* option);

// What --sizes says: "4,1KiB", and ranges in steps of four: "4..256MiB".
std::vector<std::size_t> parse_sizes(const std::string& text);

}  // namespace convoy::cli
