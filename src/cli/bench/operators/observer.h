// Watches the operators of LibTorch that a thread runs.
#pragma once

#include <memory>
#include <vector>

#include "cli/bench/operators/table.h"

namespace convoy::cli::operators {

// Records what the thread that makes it calls of LibTorch, as long as it lives: operators that no
// other operator calls, with all that is in them, also those of backward passes on the CPU, which
// run in the thread that asks for them. One at a time in a thread.
class Observer {
 public:
  Observer();
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  // Gives the calls since the last time, in the order of their ends. Those within a backward pass
  // are backward's, and those after the last one the update's.
  std::vector<TimedCall> take();

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::cli::operators
