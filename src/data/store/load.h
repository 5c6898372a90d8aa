// How the records of a store get into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "convoy/data/loadable_dataset.h"
#include "convoy/data/packed.h"

namespace convoy::data {

// Consecutive records, about as many bytes for each rank; where records are empty or tiny, about as
// many records. The parts of all ranks are the data set.
Range consecutive_part(const LoadableDataset& source, int rank, int ranks);

// Reads these records to their offsets, in ascending order, by several threads. Throws what load()
// throws, the first error by place, or what `tell` throws.
void load_records(const LoadableDataset& source, Range records,
                  const std::vector<std::uint64_t>& offsets, std::span<std::byte> to, int threads,
                  const Tell& tell);

}  // namespace convoy::data
