#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/train/safetensors.h"

// Either refused with UsageError, or every view lies inside the input, without gaps, and has the
// size that its shape says.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  try {
    const convoy::train::SafetensorsFile file(input, "input");
    std::uint64_t total = 0;
    unsigned sum = 0;
    for (const convoy::train::TensorView& tensor : file.tensors()) {
      std::uint64_t bytes = convoy::train::size_of_type(tensor.type);
      for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
      if (bytes != tensor.bytes.size() || file.find(tensor.name) != &tensor) std::abort();
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
      total += bytes;
    }
    if (total > size) std::abort();
    static volatile unsigned sink;  // so that the reads above stay
    sink = sum;
    (void)sink;
  } catch (const convoy::UsageError&) {
  }
  return 0;
}
