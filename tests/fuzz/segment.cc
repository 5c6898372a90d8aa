// A segment of a log. What is read of it can be written on.
#include <cstdint>
#include <span>

#include "convoy/base/error.h"
#include "server/log/log.h"
#include "server/log/segment.h"
#include "server/log/simulated_disk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy::server;
  SimulatedDisk disk;
  disk.put(segment_name(1), std::as_bytes(std::span(data, size)));
  try {
    std::uint64_t last = 0;
    {
      Log log(disk);
      last = log.last_index();
      if (log.read(1, UINT64_MAX).size() != last) __builtin_trap();
      log.append(last + 1, log.last_epoch(), std::as_bytes(std::span(data, size)));
    }
    Log again(disk);
    if (again.last_index() != last + 1 || again.tail_was_cut()) __builtin_trap();
  } catch (const convoy::Failure&) {  // damaged
  }
  return 0;
}
