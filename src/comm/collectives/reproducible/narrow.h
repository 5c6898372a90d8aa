// Sums of f32, f16 and bf16 in i32, vectorized: a Grid that is narrow().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/collectives/reproducible/grid.h"

namespace convoy::comm {

enum class NarrowStep : std::uint8_t {
  find_exponents,  // of one source of floats
  to_whole,        // one source of floats and their exponents
  from_whole,      // one source of whole numbers and their exponents
  add              // all of that, for contributions that are all at hand
};

// `exponents` and `divisor` are for the steps that need them.
void run_narrow(NarrowStep step, const Grid& grid, std::byte* into,
                std::span<const void* const> sources, const std::byte* exponents, std::size_t count,
                int divisor);

}  // namespace convoy::comm
