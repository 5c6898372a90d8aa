// Mistakes that the simulation must find.
#pragma once

#include <array>
#include <memory>

#include "server/replication/rules.h"

namespace convoy::server::replication::sim {

enum class Bug {
  none,
  acknowledges_before_backup,
  accepts_old_epoch,
  promotes_outsider,
  keeps_role_after_restart,
  admits_without_joint_mode,
  keeps_tail_on_rejoin,
  forgets_clients_in_snapshot,
  announces_uncommitted,
  acknowledges_before_sync,
  ignores_full_disk,
  starts_with_smaller_log,
};

// The rules with this one wrong; those of bugs that lie elsewhere (in the host) are right.
std::unique_ptr<Rules> rules_with(Bug bug);

}  // namespace convoy::server::replication::sim
