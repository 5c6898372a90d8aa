#include "convoy/base/names.h"

#include <algorithm>
#include <numeric>

namespace convoy {
namespace {

// Levenshtein's distance, by rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string printable(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    // Those from 0x80 on are two bytes of UTF-8, of which the second one tells them.
    const bool second =
        i > 0 && static_cast<unsigned char>(name[i - 1]) == 0xc2 && byte >= 0x80 && byte < 0xa0;
    if (second) text.pop_back();
    if (byte >= 0x20 && byte != 0x7f && !second) {
      text += name[i];
    } else {
      text += "\\x";
      text += kDigits[byte >> 4];
      text += kDigits[byte & 15];
    }
  }
  return text;
}

std::string printable_lines(std::string_view text) {
  std::string result;
  while (true) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    result += printable(text.substr(0, end));
    if (end == text.size()) return result;
    result += text[end];
    text.remove_prefix(end + 1);
  }
}

}  // namespace convoy
