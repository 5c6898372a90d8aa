// A parallel loop on LibTorch's own OpenMP threads, for units that see no OpenMP.
#pragma once

#include <cstddef>
#include <functional>

namespace convoy::parallel {

// Calls body(i) for i in [0, count), each once, on up to `threads` threads, and returns when all
// are done. Idle threads take the next piece, so a slow core does not hold up the rest. The first
// exception is rethrown here; the other pieces may still run.
//
// Not at::parallel_for: that is a template which runs serially in every unit compiled without
// -fopenmp, and clang's -fopenmp brings a runtime of its own.
void parallel_pieces(std::size_t count, int threads, const std::function<void(std::size_t)>& body);

}  // namespace convoy::parallel
