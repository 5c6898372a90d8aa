#include "convoy/train/threads.h"

#include <ATen/Parallel.h>

#include <charconv>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/system.h"
#include "convoy/comm/world.h"

namespace convoy::train {
namespace {

int threads_of_environment(int fallback) {
  const std::string text = environment("OMP_NUM_THREADS");
  if (text.empty()) return fallback;
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

int set(int threads, int cores) {
  if (threads < 0) {
    throw UsageError("set_threads: " + std::to_string(threads) +
                     " threads; it has to be positive, or 0 for the default");
  }
  if (threads == 0) threads = threads_of_environment(cores);
  at::set_num_threads(threads);
  return threads;
}

}  // namespace

int set_threads(int threads) { return set(threads, static_cast<int>(usable_cores().size())); }

int set_threads(const comm::World& world, int threads) { return set(threads, world.cores()); }

}  // namespace convoy::train
