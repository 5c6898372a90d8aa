#include "tests/server/replication/planted.h"

#include <algorithm>

namespace convoy::server::replication::sim {
namespace {

class BrokenRules : public Rules {
 public:
  explicit BrokenRules(Bug bug) : bug_(bug) {}

  Index acknowledged(Durability durability, Index written, Index synced) const override {
    return bug_ == Bug::acknowledges_before_sync ? written
                                                 : Rules::acknowledged(durability, written, synced);
  }
  Index committed(Index own, Index other, bool backup, bool joint) const override {
    return Rules::committed(own, other, backup && bug_ != Bug::acknowledges_before_backup,
                            joint && bug_ != Bug::admits_without_joint_mode);
  }
  Index announced(Index committed, Index last) const override {
    return bug_ == Bug::announces_uncommitted ? last : Rules::announced(committed, last);
  }
  bool accepts(Epoch known, Epoch sent) const override {
    return bug_ == Bug::accepts_old_epoch || Rules::accepts(known, sent);
  }
  std::optional<Index> kept(const LogShape& primary, std::span<const EpochRun> joiner, Index last,
                            Index applied) const override {
    const std::optional<Index> right = Rules::kept(primary, joiner, last, applied);
    return right && bug_ == Bug::keeps_tail_on_rejoin ? last : right;
  }
  bool leaves_when_unable() const override { return bug_ != Bug::ignores_full_disk; }
  std::optional<Configuration> successor(const Configuration& current,
                                         std::span<const Standing> nodes,
                                         bool accept_loss) const override {
    if (bug_ == Bug::promotes_outsider) {
      const auto serves = [&](const Standing& node) {
        return node.now == current.primary && node.heard && node.able;
      };
      const auto can = [](const Standing& node) { return node.fresh && node.able; };
      const auto found = std::find_if(nodes.begin(), nodes.end(), can);
      if (std::none_of(nodes.begin(), nodes.end(), serves) && found != nodes.end()) {
        return Configuration{current.shard, current.epoch + 1, found->now, {}};
      }
    }
    return Rules::successor(current, nodes, accept_loss);
  }

 protected:
  bool better(const Standing& left, const Standing& right) const override {
    return bug_ == Bug::starts_with_smaller_log ? left.position < right.position
                                                : Rules::better(left, right);
  }

 private:
  const Bug bug_;
};

}  // namespace

std::unique_ptr<Rules> rules_with(Bug bug) { return std::make_unique<BrokenRules>(bug); }

}  // namespace convoy::server::replication::sim
