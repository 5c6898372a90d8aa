#include "data/store/admit.h"

#include <algorithm>
#include <map>
#include <string>

#include "convoy/base/system.h"
#include "data/store/need.h"

namespace convoy::data {
namespace {

Hosts meet(Peers& world, std::uint64_t limit) {
  const std::vector<std::string> names = world.gather(host_name());
  const std::string& mine = names[static_cast<std::size_t>(world.rank())];
  std::map<std::string, int> count;
  Hosts hosts;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string& name = names[static_cast<std::size_t>(rank)];
    ++count[name];
    if (name != mine) continue;
    if (rank == world.rank()) hosts.here.index = hosts.here.all.size();
    hosts.here.all.push_back(rank);
  }
  hosts.fewest = world.size();
  for (const auto& [name, ranks] : count) hosts.fewest = std::min(hosts.fewest, ranks);
  // After gather(): nobody has begun to load yet.
  hosts.memory = memory_for_rank(limit, available_memory(), hosts.here.all.size());
  for (const std::uint64_t bytes : world.gather_numbers(hosts.memory))
    hosts.memory = std::min(hosts.memory, bytes);
  return hosts;
}

}  // namespace

std::uint64_t memory_for_rank(std::uint64_t limit, std::uint64_t available, std::size_t ranks) {
  const std::uint64_t usable = limit > 0 ? std::min(limit, available) : available / 4 * 3;
  return usable / ranks;
}

StoreNeed choose(const LoadableDataset& source, int world, const StoreOptions& options,
                 const Hosts& hosts, bool shared) {
  const bool best = options.placement == Placement::best;
  const StoreNeed copy = copy_need(source, world, hosts.fewest);
  if (options.placement == Placement::host) return copy;
  if (best && shared && copy.total() <= hosts.memory) return copy;
  if (options.placement == Placement::files) return files_need(source, world);
  const StoreNeed parts = best || options.groups == 0
                              ? most_groups(source, world, options.segment, hosts.memory)
                              : store_need(source, world, options.groups, options.segment);
  return best && parts.total() > hosts.memory ? files_need(source, world) : parts;
}

Admission admit(const LoadableDataset& source, Peers& world, const StoreOptions& options,
                bool shared) {
  Hosts hosts = meet(world, options.host_memory);
  const StoreNeed need = choose(source, world.size(), options, hosts, shared);
  check_memory(need, world.size(), hosts.memory, options.host_memory > 0);
  return {need, std::move(hosts.here)};
}

}  // namespace convoy::data
