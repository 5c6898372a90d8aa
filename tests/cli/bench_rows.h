// Rows of JSON that benchmarks print.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace convoy::cli {

inline void expect_positive(const nlohmann::json& row, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_GT(row.at(key).get<double>(), 0) << key;
}

}  // namespace convoy::cli
