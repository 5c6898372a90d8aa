// Element-wise reductions of two buffers.
#pragma once

#include <cstddef>
#include <span>

#include "convoy/comm/types.h"

namespace convoy::comm {

// into[i] = into[i] (op) from[i] for `count` elements; average adds. No overlap; any alignment.
void reduce(ReduceOp op, Type type, void* into, const void* from, std::size_t count);

// data[i] /= ranks: what is left of an average after its sum.
void divide(Type type, void* data, std::size_t count, int ranks);

void reduce_all(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                std::size_t count, int divisor = 1);

}  // namespace convoy::comm
