#include "train/strategies/strategies.h"

#include "train/strategies/downpour/downpour.h"
#include "train/strategies/hybrid/hybrid.h"
#include "train/strategies/partitioned/partitioned.h"
#include "train/strategies/sandblaster/sandblaster.h"
#include "train/strategies/sync/sync.h"

namespace convoy::train {

// One line for each.
void add_strategies(Registry& registry) {
  add_sync(registry);
  add_hybrid(registry);
  add_partitioned(registry);
  add_downpour(registry);
  add_sandblaster(registry);
}

}  // namespace convoy::train
