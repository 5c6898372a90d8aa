// Where a run goes on from, and what its folder keeps of what came before.
#pragma once

#include <cstdint>
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

// Throws UsageError unless a new run may begin in `folder`. Nothing may stand there under a name
// that runs use, whoever wrote it, unless it is to be overwritten; nor may it be unknown whether
// something does. Changes nothing, as the next two.
void check_run_folder(const std::string& folder, bool overwrite);

// What a run does that goes on if it can (kResumeAuto): from its newest checkpoint, or it begins;
// or it begins again where one has ended before its first checkpoint, whose files are to be
// overwritten. Throws UsageError where neither is right. Changes nothing.
enum class Start { go_on, begin, begin_again };
Start choose_start(const std::string& folder);

// The checkpoint of another run that the one in `folder` went on from which was lost before its
// first own: to begin it again is to go on from there once more. "" where it began from nothing, or
// doesn't say. Throws UsageError where that checkpoint is gone. Changes nothing.
std::string origin_of_lost_run(const std::string& folder);

// `which` is a checkpoint, or "latest" for the newest in `folder`. Throws UsageError when there is
// none, it is damaged, or it is not of the run that `folder` holds: another's, or set aside there.
Origin open_origin(const std::string& which, const std::string& folder);

// Gives the recipe of the run that the checkpoint is of.
Recipe recipe_of(const Origin& origin, const Vocabulary& vocabulary);

// Throws UsageError when this recipe with this training data can't go on from there. Values of the
// recipe that have changed are told to `log`, if there is one. Returns the recipe of then.
Recipe check_origin(const Origin& origin, const Recipe& recipe, const Vocabulary& vocabulary,
                    const data::Dataset& training_data, const Log* log);

// Throws UsageError where the last training in the folder was of the same recipe, had no numbers
// any more after `step` (-1: it had begun), and has made no checkpoint since: from there this one
// would end so, too. Of runs that nobody watches, which would start again and again.
void check_leads_elsewhere(const Recipe& recipe, std::int64_t step);

// Checks the folder again, removes the files of the run that is to be overwritten there, and writes
// recipe.toml.
void prepare_new_run(const Recipe& recipe, bool overwrite);

// Does so in a folder whose run ended before its first checkpoint (Start::begin_again). What is
// there goes; its metrics are set aside. Returns where, or nothing if there are none.
std::string prepare_run_again(const Recipe& recipe);

// Does so for a run that goes on from `origin`. Checkpoints of later steps are set aside, with a
// copy of metrics.jsonl as it was. Returns where, or nothing if there are none.
std::string prepare_resumed_run(const Recipe& recipe, const Origin& origin);

// Gives the folder of checkpoints in a run folder.
std::string checkpoints_in(const std::string& folder);

}  // namespace convoy::train
