#include "train/parallel_pieces.h"

#include <exception>

namespace convoy::train {

void parallel_pieces(std::size_t count, int threads, const std::function<void(std::size_t)>& body) {
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1 && count > 1)
  for (std::size_t i = 0; i < count; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(convoy_parallel_pieces)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace convoy::train
