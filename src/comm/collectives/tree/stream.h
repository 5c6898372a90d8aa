// Reduction up a tree and broadcast down it, for several trees at once.
#pragma once

#include "comm/collectives/pipeline.h"
#include "comm/engine/io.h"
#include "comm/engine/task.h"

namespace convoy::comm {

// `data` is cut into `colors` chunks (see chunk()), and chunk c is summed along ColorTree c: its
// segments follow each other up the tree, every interior rank adding its children's to its own, and
// from the root down again. Colors don't wait for each other; of one color a rank sends up at most
// 4 * pipeline.in_flight segments ahead of those that have come down.
//
// The order of summation is fixed by (count, p, colors): own, first child, second child, and so on.
// The root alone computes a result, so all ranks get the same bits. A rank sends what sent_chunks()
// says. Memory: pipeline.in_flight segments for each child of this rank.
Task tree_stream(Io& io, Buffer data, ReduceOp op, int colors, Pipeline pipeline);

}  // namespace convoy::comm
