// How much tests do that draw cases at random: some in each run, more where somebody asks for it.
#pragma once

#include <cstdlib>

namespace convoy::test {

// Processes that a test kills at random moments, by CONVOY_TEST_KILLS.
inline int kills() {
  const char* value = std::getenv("CONVOY_TEST_KILLS");
  const int told = value != nullptr ? std::atoi(value) : 0;
  return told > 0 ? told : 10;
}

// Whether tests are to try all that they know, by CONVOY_TEST_ALL.
inline bool all_cases() {
  const char* value = std::getenv("CONVOY_TEST_ALL");
  return value != nullptr && *value != '\0';
}

}  // namespace convoy::test
