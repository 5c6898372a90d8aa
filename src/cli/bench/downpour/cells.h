// Figures of a comparison as texts; empty where they are not known.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include "convoy/base/units.h"

namespace convoy::cli {

inline std::string formatted(const char* format, double value) {
  if (!std::isfinite(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

inline std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? format_seconds(seconds) : "";
}

inline std::string rate_text(double bytes_per_s) {
  return std::isfinite(bytes_per_s) && bytes_per_s >= 0
             ? format_bytes(static_cast<std::uint64_t>(bytes_per_s)) + "/s"
             : "";
}

}  // namespace convoy::cli
