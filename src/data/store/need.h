// How much memory a store takes.
#pragma once

#include <cstdint>
#include <string>

#include "convoy/data/store.h"

namespace convoy::data {

// Segments that are too small for the pages of so many ranks are taken as large enough.
std::size_t segment_for(std::size_t wanted, int members);

// The most groups for which `memory` is enough; 1 also when it isn't.
StoreNeed most_groups(const LoadableDataset& source, int world, std::size_t segment,
                      std::uint64_t memory);

// Says what one copy on each host takes, for a rank of a host with `on_host` of them.
StoreNeed copy_need(const LoadableDataset& source, int world, int on_host);
// Says what the order of records alone takes.
StoreNeed files_need(const LoadableDataset& source, int world);

// Throws UsageError with the numbers when the memory is too small. `limited`: the user has said how
// much there may be.
void check_memory(const StoreNeed& need, int world, std::uint64_t memory, bool limited);

}  // namespace convoy::data
