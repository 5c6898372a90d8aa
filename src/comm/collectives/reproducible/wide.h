// Sums in one or two i64 each: a Grid that is not narrow().
#pragma once

#include <cstddef>
#include <span>

#include "comm/collectives/reproducible/kernels.h"

namespace convoy::comm {

void find_exponents_wide(const Grid& grid, const std::byte* data, std::byte* exponents,
                         std::size_t count);
void to_whole_wide(const Grid& grid, const std::byte* data, const std::byte* exponents,
                   const WholeNumbers& whole, std::size_t count);
void from_whole_wide(const Grid& grid, const WholeNumbers& whole, const std::byte* exponents,
                     std::byte* data, std::size_t count, int divisor);
// All three for contributions that are all at hand.
void add_wide(const Grid& grid, std::byte* into, std::span<const void* const> sources,
              std::size_t count, int divisor);

}  // namespace convoy::comm
