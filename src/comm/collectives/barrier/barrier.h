// Barrier by dissemination.
#pragma once

#include "comm/engine/io.h"
#include "comm/engine/task.h"

namespace convoy::comm {

// ceil(log2 p) rounds of empty messages; in round i rank r tells rank r + 2^i.
Task barrier_dissemination(Io& io);

}  // namespace convoy::comm
