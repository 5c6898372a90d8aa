// The strategy and the task that exist for tests alone, as a plugin of `convoy train`.
#include <convoy/train/plugin.h>

#include "tests/train/halves.h"
#include "tests/train/words.h"

CONVOY_PLUGIN(registry) {
  convoy::train::testing_data::add_halves(registry);
  convoy::train::testing_data::add_words(registry);
}
