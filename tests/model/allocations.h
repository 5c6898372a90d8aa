// What a thread allocates for tensors, as LibTorch's allocator reports it.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace convoy::model {

// Bytes, since it began to look.
class Allocations : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t,
                         c10::Device) override {
    held += bytes;
    largest = std::max(largest, bytes);
    peak = std::max(peak, held);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t held = 0;
  std::int64_t largest = 0;  // of a tensor
  std::int64_t peak = 0;     // of what was held at a time
};

template <class Work>
Allocations allocations_of(Work&& work) {
  const auto seen = std::make_shared<Allocations>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, seen);
  work();
  return *seen;
}

}  // namespace convoy::model
