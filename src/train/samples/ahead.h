// Memory for what is read ahead of need. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include "convoy/base/units.h"

namespace convoy::train {

// What to say where batches that a rank may have ready, of so many bytes each on it, are more than
// the host has free for its ranks; "" else. They are made as they are wanted, so that the memory
// would be missed in the middle of training.
inline std::string too_far_ahead(std::int64_t ahead, std::uint64_t batch_bytes, int ranks_of_host,
                                 std::uint64_t free_bytes) {
  const auto batches = static_cast<std::uint64_t>(ahead) + 2;  // as data::Loader has them
  const auto ranks = static_cast<std::uint64_t>(ranks_of_host);
  if (batch_bytes <= free_bytes / batches / ranks) return "";
  const double all =
      static_cast<double>(batch_bytes) * static_cast<double>(batches) * static_cast<double>(ranks);
  return "data.ahead is " + std::to_string(ahead) + ": up to " + std::to_string(batches) +
         " batches of " + format_bytes(batch_bytes) + " wait on each rank of this host, " +
         format_bytes(static_cast<std::uint64_t>(all)) + " in all, and " +
         format_bytes(free_bytes) + " are free; a smaller data.ahead, or training.batch, fits";
}

}  // namespace convoy::train
