#include "data/store/admit.h"

#include <algorithm>
#include <map>
#include <string>

#include "convoy/base/system.h"
#include "data/store/need.h"

namespace convoy::data {
namespace {

Hosts meet(Peers& world, std::uint64_t given) {
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
  hosts.memory = given > 0 ? given : available_memory() / hosts.here.all.size();
  for (const std::string& bytes : world.gather(std::to_string(hosts.memory)))
    hosts.memory = std::min<std::uint64_t>(hosts.memory, std::stoull(bytes));
  return hosts;
}

}  // namespace

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
  Hosts hosts = meet(world, options.memory);
  const StoreNeed need = choose(source, world.size(), options, hosts, shared);
  check_memory(need, world.size(), hosts.memory);
  return {need, std::move(hosts.here)};
}

}  // namespace convoy::data
