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

// Says what is due where any number of updates have led from one moment to the other: all that
// would have been due in between.
Due due_since(const Recipe& recipe, const Moment& before, const Moment& now,
              std::uint32_t requests);

// Before the first update of a run, or of a part that goes on from a checkpoint: what was left out
// there, or is due now that no batch is left of the epoch. `epoch_was_over`: when the checkpoint
// was written. It may have been evaluated then.
Due due_at_start(const Recipe& recipe, const Moment& now, bool epoch_was_over);

// Whether the batches of this recipe leave nothing more of the epoch at this position.
bool is_over(const data::Position& position, std::size_t samples, const Recipe& recipe);

}  // namespace convoy::train
