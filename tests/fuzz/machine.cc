// A machine's description.
#include <cstdint>
#include <string>

#include "convoy/base/error.h"
#include "convoy/plan/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::plan;
  try {
    const Machine machine = machine_of_toml(std::string(data, data + size));
    // What is read is written as something that reads as the same.
    if (machine_of_toml(to_toml(machine)) != machine) __builtin_trap();
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
