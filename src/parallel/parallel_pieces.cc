#include "parallel/parallel_pieces.h"

#include <atomic>
#include <exception>
#include <mutex>

// What compilers make of `#pragma omp parallel`, in the stable interface of libgomp that the other
// OpenMP runtimes offer as well. Called directly, the unit needs no OpenMP compiler: clang's own
// would bring a second runtime, with a second pool of threads, beside the one LibTorch is linked
// with.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

namespace convoy::parallel {
namespace {

struct Pieces {
  const std::function<void(std::size_t)>& body;
  const std::size_t count;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex{};  // of failure
  std::exception_ptr failure = nullptr;

  // On every thread of the team; an exception must not leave it.
  void work() {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  }
};

}  // namespace

void parallel_pieces(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  Pieces pieces{body, count};
  if (threads > 1 && count > 1)
    GOMP_parallel([](void* data) { static_cast<Pieces*>(data)->work(); }, &pieces,
                  static_cast<unsigned>(threads), 0);
  else
    pieces.work();
  if (pieces.failure) std::rethrow_exception(pieces.failure);
}

}  // namespace convoy::parallel
