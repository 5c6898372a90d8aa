#include "cli/bench/lists.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/units.h"

namespace convoy::cli {

std::vector<std::string> split_list(const std::string& text, const char* option) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, end - at);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (part.empty())
      throw UsageError(std::string(option) + ": there is an empty entry in '" + text + "'");
    parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> sizes;
  for (const std::string& part : split_list(text, "--sizes")) {
    const std::size_t dots = part.find("..");
    if (dots == part.npos) {
      sizes.push_back(parse_bytes(part));
      continue;
    }
    const std::size_t last = parse_bytes(part.substr(dots + 2));
    const std::size_t first = parse_bytes(part.substr(0, dots));
    if (first == 0 || first > last)
      throw UsageError("--sizes: '" + part + "' must go from a size above 0 to a larger one");
    for (std::size_t size = first; size <= last; size *= 4) sizes.push_back(size);
  }
  return sizes;
}

}  // namespace convoy::cli
