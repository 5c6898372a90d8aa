// Element-wise reductions of buffers. Any alignment; vectorized for what the machine has, with the
// same bits on all of them (but for which NaN a NaN is), and in every thread, whatever its rounding
// mode, and whether or not it flushes subnormals to zero.
#pragma once

#include <cstddef>
#include <span>

#include "convoy/comm/types.h"

namespace convoy::comm {

// into[i] = into[i] (op) from[i] for `count` elements; average adds. No overlap.
void reduce(ReduceOp op, Type type, void* into, const void* from, std::size_t count);

// data[i] /= ranks: what is left of an average after its sum. Throws UsageError for types that are
// not floating.
void divide(Type type, void* data, std::size_t count, int ranks);

// into[i] = ((sources[0][i] (op) sources[1][i]) (op) sources[2][i]) ..., for at least one source,
// in one pass over memory. `into` is one of the sources, or apart from all of them. 16-bit floats
// are combined in f32 and rounded once, at the end; of other types the result is that of a chain of
// reduce(), bit for bit. A `divisor` above 1 (floating types; UsageError for others) divides the
// result before it is rounded: an average.
void reduce_all(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                std::size_t count, int divisor = 1);

// reduce_all() or another that takes the same; its contract may differ in the order of additions
// and in rounding.
using Reduce = void (*)(ReduceOp op, Type type, void* into, std::span<const void* const> sources,
                        std::size_t count, int divisor);

}  // namespace convoy::comm
