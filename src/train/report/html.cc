#include "train/report/html.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "convoy/base/units.h"

namespace convoy::train {
namespace {

constexpr std::string_view kUnknown = "\xef\xbf\xbd";

// Bytes of the UTF-8 character that begins here; 0 if none does.
std::size_t character(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t size = first < 0x80                    ? 1
                           : first >= 0xc2 && first < 0xe0 ? 2
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xf0 && first < 0xf5 ? 4
                                                           : 0;
  if (size == 0 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
  }
  return size;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character(text);
    const char c = text.front();
    const bool control = size == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
    if (size == 0 || (control && c != '\n' && c != '\t'))
      result += kUnknown;
    else if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (c == '\'')
      result += "&#39;";
    else
      result += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string count_text(double number) {
  if (!std::isfinite(number)) return "?";
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.0f", number);
  std::string text = digits;
  const std::ptrdiff_t first = text.starts_with('-') ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string number_text(double number) {
  if (!std::isfinite(number)) return "?";
  if (std::fabs(number) >= 1000 && std::fabs(number) < 1e12) return count_text(number);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", number);
  return text;
}

std::string time_text(double seconds) {
  return std::isfinite(seconds) ? format_seconds(seconds) : "?";
}

std::string metric_text(const MetricInfo& metric, double value) {
  if (!std::isfinite(value)) return "?";
  if (!metric.percent) return number_text(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", 100 * value);
  return text;
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"wide\"><table><thead><tr>";
  for (const std::string& cell : head) html += "<th scope=\"col\">" + cell + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += i == 0 ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string facts(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string html;
  for (const auto& [name, value] : rows) {
    if (!value.empty()) html += "<div><dt>" + name + "</dt><dd>" + value + "</dd></div>\n";
  }
  return html.empty() ? "" : "<dl>" + html + "</dl>\n";
}

}  // namespace convoy::train
