#include "train/strategies/downpour/downpour.h"

#include "convoy/train/downpour.h"
#include "convoy/train/registry.h"
#include "train/strategies/downpour/around.h"
#include "train/strategies/downpour/options.h"

namespace convoy::train {

void add_downpour(Registry& registry) {
  registry.add_strategy(
      kDownpour, [] { return std::make_unique<Around>(); }, downpour_keys(), check_downpour);
}

}  // namespace convoy::train
