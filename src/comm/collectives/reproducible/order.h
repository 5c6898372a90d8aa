// Max and min of floats as whole numbers, vectorized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "convoy/comm/types.h"

namespace convoy::comm {

enum class OrderStep : std::uint8_t {
  to_ordered,    // of one source of floats
  from_ordered,  // of one source of whole numbers
  reduce         // floats to floats
};

// For max and min of floating types.
void run_order(OrderStep step, Type type, ReduceOp op, std::byte* into,
               std::span<const void* const> sources, std::size_t count);

}  // namespace convoy::comm
