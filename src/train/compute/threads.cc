#include "convoy/train/threads.h"

#include <ATen/Parallel.h>

#include <charconv>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/system.h"

namespace convoy::train {
namespace {

int default_threads() {
  const std::string text = environment("OMP_NUM_THREADS");
  if (text.empty()) return static_cast<int>(usable_cores().size());
  // OpenMP allows a list, one number per nesting level; the first is ours.
  int threads = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, threads);
  if (error != std::errc() || threads < 1 || (rest != end && *rest != ',')) {
    throw UsageError("OMP_NUM_THREADS is '" + text +
                     "'; it has to be a positive number of threads");
  }
  return threads;
}

}  // namespace

int set_threads(int threads) {
  if (threads < 0) {
    throw UsageError("set_threads: " + std::to_string(threads) +
                     " threads; it has to be positive, or 0 for the default");
  }
  if (threads == 0) threads = default_threads();
  at::set_num_threads(threads);
  return threads;
}

}  // namespace convoy::train
