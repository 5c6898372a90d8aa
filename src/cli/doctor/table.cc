#include <algorithm>

#include "cli/doctor/rows.h"

namespace convoy::cli {
namespace {

const char* color_of(RowStatus status) {
  switch (status) {
    case RowStatus::ok:
      return "\x1b[32m";
    case RowStatus::note:
      return "\x1b[33m";
    case RowStatus::missing:
      return "\x1b[31m";
  }
  return "";
}

}  // namespace

const char* status_name(RowStatus status) {
  switch (status) {
    case RowStatus::ok:
      return "ok";
    case RowStatus::note:
      return "note";
    case RowStatus::missing:
      return "missing";
  }
  return "";
}

std::string format_table(const DoctorRows& rows, bool color) {
  constexpr std::size_t kStatusWidth = 7;
  std::size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.check.size());
  std::string text;
  for (const Row& row : rows) {
    const std::string status = status_name(row.status);
    text += row.check + std::string(width - row.check.size() + 2, ' ');
    text += color ? color_of(row.status) + status + "\x1b[0m" : status;
    text += std::string(kStatusWidth - status.size() + 2, ' ') + row.detail + "\n";
    if (!row.hint.empty())
      text += std::string(width + kStatusWidth + 4, ' ') + "-> " + row.hint + "\n";
  }
  return text;
}

}  // namespace convoy::cli
