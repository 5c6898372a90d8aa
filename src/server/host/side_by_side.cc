#include "server/host/side_by_side.h"

#include <exception>
#include <latch>
#include <mutex>

#include "convoy/base/error.h"

namespace convoy::server::host {

void run_side_by_side(
    std::size_t count, const std::function<void(std::size_t part)>& part,
    const std::function<void(std::size_t part, std::function<void()> task)>& add) {
  std::latch done(static_cast<std::ptrdiff_t>(count));
  std::mutex mutex;
  std::exception_ptr problem;  // the first one
  const auto note = [&] {
    const std::lock_guard lock(mutex);
    if (!problem) problem = std::current_exception();
  };
  const auto run = [&](std::size_t i) {
    try {
      part(i);
    } catch (...) {
      note();
    }
    done.count_down();
  };
  std::size_t next = 1;
  try {
    for (; next < count; ++next) add(next, [&run, i = next] { run(i); });
    run(0);
  } catch (...) {  // by add()
    note();
    done.count_down(static_cast<std::ptrdiff_t>(count - next + 1));  // nor is part 0 begun
  }
  // All that tasks refer to is on this stack.
  done.wait();
  if (!problem) return;
  try {
    std::rethrow_exception(problem);
  } catch (const UsageError& error) {
    throw Failure(error.what());
  }
}

}  // namespace convoy::server::host
