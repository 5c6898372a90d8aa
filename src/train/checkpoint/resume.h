// Where a run goes on from, and what its folder keeps of what came before.
#pragma once

#include <string>

#include "convoy/base/log.h"
#include "convoy/data/dataset.h"
#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/recipe.h"

namespace convoy::train {

// The checkpoint that a run goes on from.
struct Origin {
  std::string path;
  Manifest manifest;
};

// `which` is a checkpoint, or "latest" for the newest of `checkpoints`. Throws UsageError when it
// is damaged, or of a run that this recipe with this training data can't go on with. Values of the
// recipe that have changed are told to `log`, if there is one.
Origin find_origin(const std::string& which, const CheckpointFolder& checkpoints,
                   const Recipe& recipe, const Vocabulary& vocabulary,
                   const data::Dataset& training_data, const Log* log);

// Makes the run folder, with recipe.toml in it, ready for a run from its beginning. If it holds
// another run, that is removed (with `overwrite`) or a UsageError.
void prepare_new_run(const Recipe& recipe, bool overwrite);

// The same for a run that goes on from `origin`: checkpoints of later steps go, since they would be
// taken for newer ones.
void prepare_resumed_run(const Recipe& recipe, const CheckpointFolder& checkpoints,
                         const Origin& origin);

}  // namespace convoy::train
