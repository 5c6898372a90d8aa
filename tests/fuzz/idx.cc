#include <cstddef>
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "data/readers/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::data;
  try {
    IdxArray images = parse_idx(std::as_bytes(std::span(data, size)), "images");
    // As many labels as images, unless there are absurdly many.
    const std::size_t count = images.sizes[0] % 1000;
    const IdxArray labels{{count}, std::vector<std::byte>(count)};
    idx_examples(std::move(images), "images", labels, "labels");
  } catch (const convoy::UsageError&) {
    // Refused, as it should be.
  }
  return 0;
}
