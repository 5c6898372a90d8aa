// What a training has to do after an update. Pure functions. Torch-free.
#pragma once

#include <cstdint>

#include "convoy/data/sample_source.h"
#include "convoy/train/moment.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

struct Due {
  bool evaluate = false;
  bool end_epoch = false;  // report on the epoch that is over
  bool checkpoint = false;
  bool end = false;  // no further update

  bool operator==(const Due&) const = default;
};

// Where a training is after so many updates, whose samples come from `source`.
Moment moment_of(const data::SampleSource& source, const Recipe& recipe, std::int64_t step);

// Whether training is as long as the recipe says: a number of updates, or of epochs.
bool is_done(const TrainingRecipe& training, const Moment& now);

// `requests` are those of all ranks (Request). Who is told to stop has little time: an evaluation
// that is due is left out then, at the end of training as well.
Due due(const Recipe& recipe, const Moment& now, std::uint32_t requests);

}  // namespace convoy::train
