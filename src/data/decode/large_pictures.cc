#include "data/decode/large_pictures.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace convoy::data {
namespace {

struct LargeTurns {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t asked = 0, admitted = 0;  // pictures, so far
  std::size_t bytes = 0;                  // of those that are there
};

// Never destroyed: threads may still decode when the program ends.
LargeTurns& large_turns() {
  static LargeTurns& all = *new LargeTurns;
  return all;
}

}  // namespace

LargePicture::LargePicture(std::size_t bytes) : bytes_(bytes) {
  LargeTurns& turns = large_turns();
  std::unique_lock lock(turns.mutex);
  const std::uint64_t number = turns.asked++;
  turns.changed.wait(lock, [&] {
    const bool fits = bytes_ <= kLargeTogether && turns.bytes <= kLargeTogether - bytes_;
    return turns.admitted == number && (turns.bytes == 0 || fits);
  });
  ++turns.admitted;
  turns.bytes += bytes_;
  turns.changed.notify_all();
}

LargePicture::~LargePicture() {
  LargeTurns& turns = large_turns();
  const std::lock_guard lock(turns.mutex);
  turns.bytes -= bytes_;
  turns.changed.notify_all();
}

std::size_t LargePicture::waiting() {
  LargeTurns& turns = large_turns();
  const std::lock_guard lock(turns.mutex);
  return static_cast<std::size_t>(turns.asked - turns.admitted);
}

}  // namespace convoy::data
