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
  const auto parts = [&] {
    return options.groups == 0 || options.placement == Placement::best
               ? most_groups(source, world, options.segment, hosts.memory)
               : store_need(source, world, options.groups, options.segment);
  };
  const auto copy = [&] { return copy_need(source, world, hosts.fewest); };
  const auto files = [&] { return files_need(source, world); };
  switch (options.placement) {
    case Placement::parts:
      return parts();
    case Placement::host:
      return copy();
    case Placement::files:
      return files();
    case Placement::best:
      break;
  }
  const StoreNeed one = copy(), several = parts();
  if (shared && one.total() <= hosts.memory) return one;
  if (several.total() <= hosts.memory) return several;
  return files();
}

Admission admit(const LoadableDataset& source, Peers& world, const StoreOptions& options,
                bool shared) {
  Hosts hosts = meet(world, options.memory);
  const StoreNeed need = choose(source, world.size(), options, hosts, shared);
  check_memory(need, world.size(), hosts.memory);
  return {need, std::move(hosts.here)};
}

}  // namespace convoy::data
