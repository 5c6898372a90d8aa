#include "train/strategies/sandblaster/sandblaster.h"

#include <memory>

#include "convoy/train/registry.h"
#include "convoy/train/sandblaster.h"
#include "train/strategies/downpour/around.h"
#include "train/strategies/sandblaster/options.h"

namespace convoy::train {

void add_sandblaster(Registry& registry) {
  registry.add_strategy(
      kSandblaster, [] { return std::make_unique<Around>(); }, sandblaster_keys(),
      check_sandblaster);
}

}  // namespace convoy::train
