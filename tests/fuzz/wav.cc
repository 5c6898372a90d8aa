#include <cstddef>
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "data/sound/wav.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    convoy::data::parse_wav(std::as_bytes(std::span(data, size)), "file");
  } catch (const convoy::UsageError&) {
    // Refused, as it should be.
  }
  return 0;
}
