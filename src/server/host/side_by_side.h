// One piece of work by several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace convoy::server::host {

// Calls part(0) here and part(1) to part(count - 1) by tasks, of which add(i, task) has another
// thread run the one of part i, once. Returns, or throws, when all that were begun have returned.
//
// Throws what one of them threw, or what add() did; but Failure for a UsageError, for whoever gets
// that takes it that nothing was done.
void run_side_by_side(std::size_t count, const std::function<void(std::size_t part)>& part,
                      const std::function<void(std::size_t part, std::function<void()> task)>& add);

}  // namespace convoy::server::host
