#include "server/replication/rules.h"

#include <algorithm>

namespace convoy::server::replication {

Index Rules::acknowledged(Durability durability, Index written, Index synced) const {
  return durability == Durability::synced ? std::min(written, synced) : written;
}

Index Rules::committed(Index own, Index other, bool backup, bool joint) const {
  return backup || joint ? std::min(own, other) : own;
}

Index Rules::announced(Index committed, Index last) const { return std::min(committed, last); }

bool Rules::accepts(Epoch known, Epoch sent) const { return sent >= known; }

std::optional<Index> Rules::kept(const LogShape& primary, std::span<const EpochRun> joiner,
                                 Index last, Index applied) const {
  const std::optional<Index> common = last_common(primary, joiner, last);
  // Less than it has applied: those commands were lost by everybody else, in power cuts.
  return common && *common >= applied ? common : std::nullopt;
}

bool Rules::leaves_when_unable() const { return true; }

bool Rules::better(const Standing& left, const Standing& right) const {
  if (left.whole != right.whole) return left.whole;
  return left.position > right.position;
}

std::optional<Configuration> Rules::successor(const Configuration& current,
                                              std::span<const Standing> nodes,
                                              bool accept_loss) const {
  const auto alone = [&](const Member& member) {
    return Configuration{current.shard, current.epoch + 1, member, {}};
  };
  const Standing* best = nullptr;
  std::size_t members = 0, restarted = 0, alive = 0;
  for (const Member& member : {current.primary, current.backup}) {
    if (!member) continue;
    ++members;
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const Standing& standing) {
      return standing.now.node == member.node;
    });
    if (node == nodes.end() || !node->heard) continue;
    if (node->now == member) {
      ++alive;
      if (member == current.primary && node->able) return std::nullopt;
      // The backup has everything that was committed. It must live: whoever is promoted is the only
      // one in the new configuration.
      if (member == current.backup && node->able && node->fresh) return alone(member);
    } else if (node->fresh) {
      ++restarted;
      if (best == nullptr || better(*node, *best)) best = &*node;
    }
  }
  // Nobody can serve as he is. Who is only silent, or has no room, may come back; who was restarted
  // has lost his role, and only his disk speaks for him.
  if (best == nullptr) return std::nullopt;
  // What was committed was acknowledged by both members, so one whole log has it all. Without one,
  // both have to be here, so that the larger can be taken.
  const bool all_here = members == 2 && restarted == 2;
  if (best->whole || all_here || (accept_loss && alive == 0)) return alone(best->now);
  return std::nullopt;
}

}  // namespace convoy::server::replication
