// Estimates, as what a plan prints and as members of its rows.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "convoy/plan/estimate.h"

namespace convoy::cli {

// "64 (50 to 81)"
inline std::string text_of(const plan::Estimate& estimate, std::string (*text)(double)) {
  return text(estimate.value) + " (" + text(estimate.interval.low) + " to " +
         text(estimate.interval.high) + ")";
}

// Infinite numbers are null in JSON.
inline nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

inline void add(nlohmann::ordered_json& row, const std::string& key,
                const plan::Estimate& estimate) {
  row[key] = number(estimate.value);
  row[key + "_low"] = number(estimate.interval.low);
  row[key + "_high"] = number(estimate.interval.high);
}

}  // namespace convoy::cli
