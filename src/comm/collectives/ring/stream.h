// Reduce-scatter and allgather around a ring, alone or one after the other as an allreduce.
#pragma once

#include "comm/collectives/pipeline.h"
#include "comm/engine/io.h"
#include "comm/engine/task.h"

namespace convoy::comm {

enum class RingPhases { reduce_scatter, allgather, both };

// Segments of the p slices of `data` (see chunk()) flow from each rank to the next. In the first
// phase a rank adds what arrives to its own part and passes it on; in the second it stores and
// passes on. Slice r ends on rank r after the first phase. A segment is passed on as soon as it has
// arrived, so that the transfers of one step overlap the additions of another, and the phases
// overlap as well. The order of summation is fixed by (count, p) alone.
Task ring_stream(Io& io, Buffer data, ReduceOp op, RingPhases phases, Pipeline pipeline = {});

}  // namespace convoy::comm
