// Broadcast along a binomial tree.
#pragma once

#include "comm/engine/io.h"
#include "comm/engine/task.h"

namespace convoy::comm {

// The root's data, everywhere. Segments follow each other down the tree: ceil(log2 p) + segments -
// 1 steps. A rank sends at most S·ceil(log2 p).
Task broadcast_binomial(Io& io, Buffer data, int root);

}  // namespace convoy::comm
