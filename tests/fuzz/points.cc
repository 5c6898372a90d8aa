// points.jsonl of a plan.
#include <cstdint>
#include <string>

#include "convoy/base/error.h"
#include "convoy/plan/points.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto points = convoy::plan::points_of_text(std::string(data, data + size));
    // What is read can be used.
    for (const double target : points.header.targets) {
      const auto runs = points.updates(target);
      if (runs.size() != points.runs.size()) __builtin_trap();
    }
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
