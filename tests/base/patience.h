// How long tests wait for what has to come.
#pragma once

#include <chrono>

namespace convoy::test {

// A wait this long is there for hangs alone: no verdict hangs on it, on a machine that is busy with
// other things, too. It is far under the time that ctest gives a test (TIMEOUT in
// cmake/ConvoyTargets.cmake), so that a test that waits in vain can say for what.
inline constexpr std::chrono::seconds patience() { return std::chrono::seconds(240); }

// The same in seconds, for measured times.
inline constexpr double patience_s() { return static_cast<double>(patience().count()); }

}  // namespace convoy::test
