#include "cli/launch/report.h"

#include <array>
#include <cstdio>
#include <random>
#include <sstream>

namespace convoy::cli {
namespace {

constexpr std::size_t kLongestText = 512;

}  // namespace

std::string random_name() {
  std::random_device random;
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x", random(), random());
  return text.data();
}

std::string format_report(const Report& report, std::string_view token) {
  std::ostringstream line;
  line << kReportMark << token << ' ' << static_cast<int>(report.kind) << ' ' << report.rank << ' '
       << (report.host.empty() ? "unknown-host" : report.host) << ' ' << report.supervisor << ' '
       << report.pid << ' ' << report.signaled << ' ' << report.code << ' '
       << static_cast<int>(report.asked) << ' ' << report.time_ns;
  std::string text = report.text.substr(0, kLongestText);
  for (char& c : text) {
    if (c == '\n' || c == kReportMark) c = ' ';
  }
  line << ' ' << text << '\n';
  return line.str();
}

std::optional<Report> parse_report(std::string_view line) {
  std::istringstream in{std::string(line)};
  Report report;
  int kind = 0;
  int asked = 0;
  if (!(in >> kind >> report.rank >> report.host >> report.supervisor >> report.pid >>
        report.signaled >> report.code >> asked >> report.time_ns)) {
    return std::nullopt;
  }
  if (kind < 0 || kind > 2 || asked < 0 || asked > 2 || report.rank < 0) return std::nullopt;
  report.kind = static_cast<Report::Kind>(kind);
  report.asked = static_cast<Asked>(asked);
  if (in.get() == ' ') std::getline(in, report.text);
  return report;
}

}  // namespace convoy::cli
