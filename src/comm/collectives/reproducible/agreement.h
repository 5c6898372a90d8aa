// That all ranks want reproducible reductions, or none does.
#pragma once

#include <string>
#include <vector>

namespace convoy::comm {

// Who differs from rank 0 in what it wants, by rank; empty if nobody does. `source` is where it was
// said.
std::string difference_of_reproducible(const std::vector<bool>& by_rank, const std::string& source);

}  // namespace convoy::comm
