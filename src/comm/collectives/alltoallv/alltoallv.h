// All-to-all of uneven parts.
#pragma once

#include <vector>

#include "comm/io.h"
#include "comm/task.h"

namespace convoy::comm {

// p - 1 rounds; in round i rank r sends to r + i and receives from r - i, in segments, so that no
// part has a size limit. The own part is copied.
Task alltoallv_pairwise(Io& io, ConstBuffer send, std::vector<std::size_t> send_counts,
                        Buffer receive, std::vector<std::size_t> receive_counts);

}  // namespace convoy::comm
