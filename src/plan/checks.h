// Arguments, checked.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>

#include "convoy/base/error.h"

namespace convoy::plan {

// The shortest text that reads back as the same number.
inline std::string text_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

[[noreturn]] inline void refuse(const std::string& name, const std::string& value,
                                const std::string& right) {
  throw UsageError(name + " is " + value + "; it must be " + right);
}

inline void check_positive(const std::string& name, double value) {
  if (!(value > 0) || !std::isfinite(value)) refuse(name, text_of(value), "a number above 0");
}

inline void check_not_negative(const std::string& name, double value) {
  if (!(value >= 0) || !std::isfinite(value)) refuse(name, text_of(value), "a number of 0 or more");
}

inline void check_finite(const std::string& name, double value) {
  if (!std::isfinite(value)) refuse(name, text_of(value), "a finite number");
}

inline void check_at_least(const std::string& name, std::int64_t value, std::int64_t least) {
  if (value < least) {
    refuse(name, std::to_string(value), "an integer of " + std::to_string(least) + " or more");
  }
}

// Also refuses what no longer counts single samples.
inline void check_batch(double batch, double least) {
  if (!(batch >= least) || !(batch <= 0x1p53)) {
    refuse("the batch", text_of(batch),
           "from " + text_of(least) + " (a sample per worker) to 2^53");
  }
}

inline void check_workers(std::int64_t workers) {
  check_at_least("the number of workers", workers, 1);
}

}  // namespace convoy::plan
