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

// Throws UsageError unless `folder` may be used: by a new run if there is none in it or it is to be
// overwritten, by one that goes on (`resume` is not empty) always. Changes nothing, as the next
// two.
void check_run_folder(const std::string& folder, bool overwrite, const std::string& resume);

// `which` is a checkpoint, or "latest" for the newest in `folder`. Throws UsageError when there is
// none, it is damaged, or it is not of the run that `folder` holds.
Origin open_origin(const std::string& which, const std::string& folder);

// Throws UsageError when this recipe with this training data can't go on from there. Values of the
// recipe that have changed are told to `log`, if there is one.
void check_origin(const Origin& origin, const Recipe& recipe, const Vocabulary& vocabulary,
                  const data::Dataset& training_data, const Log* log);

// Writes recipe.toml into the run folder, which may hold no other run then: that is removed.
void prepare_new_run(const Recipe& recipe);

// The same for a run that goes on from `origin`. Checkpoints of later steps are set aside, with a
// copy of metrics.jsonl as it was. Returns where, or nothing if there are none.
std::string prepare_resumed_run(const Recipe& recipe, const Origin& origin);

// Of a run folder.
std::string checkpoints_in(const std::string& folder);

}  // namespace convoy::train
