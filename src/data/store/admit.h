// Where the records of a store will be: what the ranks agree on before anything is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "convoy/data/peers.h"
#include "convoy/data/store.h"

namespace convoy::data {

// The ranks of one host: they share what it has.
struct HostRanks {
  std::vector<int> all;   // ascending
  std::size_t index = 0;  // this rank's place among them
};

struct Hosts {
  HostRanks here;
  int fewest = 0;            // ranks of any host
  std::uint64_t memory = 0;  // for each rank, the least of all
};

// What each of so many ranks of a host may use, of which `available` bytes are free. `limit`: of
// all of them together, StoreOptions::host_memory.
std::uint64_t memory_for_rank(std::uint64_t limit, std::uint64_t available, std::size_t ranks);

// Where the records go. Throws UsageError when there can't be so many groups.
StoreNeed choose(const LoadableDataset& source, int world, const StoreOptions& options,
                 const Hosts& hosts, bool shared);

struct Admission {
  StoreNeed need;  // its placement is settled
  HostRanks here;
};

// Collective. Throws UsageError, the same on every rank: there is no way to divide the records as
// asked for, or no memory for it. `shared` is false when hosts are known to be unable to share as
// much.
Admission admit(const LoadableDataset& source, Peers& world, const StoreOptions& options,
                bool shared);

}  // namespace convoy::data
