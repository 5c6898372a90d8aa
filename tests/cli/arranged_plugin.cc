// The strategy, the task, the optimizers and the schedule that exist for tests alone, as a plugin
// of `convoy train`.
#include <convoy/train/plugin.h>

#include "tests/train/halves.h"
#include "tests/train/signum.h"
#include "tests/train/stairs.h"
#include "tests/train/words.h"

CONVOY_PLUGIN(registry) {
  convoy::train::testing_data::add_halves(registry);
  convoy::train::testing_data::add_words(registry);
  convoy::train::testing_data::add_optimizers(registry);
  convoy::train::testing_data::add_stairs(registry);
}
