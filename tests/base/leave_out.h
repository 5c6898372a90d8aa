// Tests of what isn't everywhere.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace convoy::test {

// Where everything has to be there that tests need: in CI, `./test.sh --all`.
inline bool all_required() {
  const char* value = std::getenv("CONVOY_REQUIRE_ALL");
  return value != nullptr && *value != '\0';
}

}  // namespace convoy::test

// Leaves this test out, for the lack of a library or of data; with CONVOY_REQUIRE_ALL it fails.
#define LEAVE_OUT(why)                                                                   \
  do {                                                                                   \
    if (::convoy::test::all_required()) FAIL() << why << " (CONVOY_REQUIRE_ALL is set)"; \
    GTEST_SKIP() << why;                                                                 \
  } while (false)
