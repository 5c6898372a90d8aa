// What is looked for in messages.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace convoy::train {

inline void expect_part(const std::string& said, const std::string& part) {
  EXPECT_NE(said.find(part), std::string::npos) << part << "; " << said;
}

}  // namespace convoy::train
