// Reductions whose result does not depend on the order in which contributions meet.
#pragma once

#include <memory>
#include <vector>

#include "comm/collectives/allreduce/allreduce.h"

namespace convoy::comm {

// Gives the same bits for the same contributions, whatever the algorithm, its segments and colors,
// and whichever rank has which contribution. Each element is by itself, so that it doesn't matter
// where a buffer is cut, either. Sums are what Grid says; infinity and NaN count as in a plain sum,
// and a sum of zero is +0. Max and min take +0 for larger than -0, and are NaN where a contribution
// is. Whole numbers are reduced as ever. A group of one rank leaves its data alone.
//
// `shared` has all contributions at hand and needs nothing more. Other algorithms run twice, on the
// exponents and on whole numbers (Grid): twice the steps, and per element so many bytes in place of
// S:
//
//   sum, average     f32      1 + 4 up to 64 ranks, 1 + 8 above
//                    f16, bf16: the same
//                    f64      4 + 8 up to 512 ranks, 4 + 16 above
//   max, min         f32, f64 once as many; f16, bf16 4, once
//
// Buffers go through in blocks of 4 Mi elements, one after the other. Memory, of a block: the
// exponents, and the whole numbers where these don't fit in place of the floats (they do for f32
// and f64, up to 64 and 512 ranks).
Task allreduce_reproducible(Io& io, const Locality& locality, const Call& call, Buffer data,
                            ReduceOp op, const AllreduceChoice& choice);

// Does so for several contributions of each rank, as many on all: the bits are those of as many
// ranks as there are contributions, with one each. A rank adds up the whole numbers of its own, and
// these go through the algorithm; `shared` takes the same two steps as the others. The result is in
// the first contribution. One alone, of a group of one rank, is left as it is. To be called in the
// order in which operations begin.
Task allreduce_of_several(Io& io, const Locality& locality, const Call& call,
                          const std::vector<Buffer>& contributions, ReduceOp op,
                          const AllreduceChoice& choice);

// Does so for reduce_scatter between hosts: the exponents go through a ring allreduce, the numbers
// through a ring reduce-scatter. It is not done in blocks, so that the memory above is that of the
// whole buffer.
Task reduce_scatter_reproducible(Io& io, Buffer data, ReduceOp op);

}  // namespace convoy::comm
