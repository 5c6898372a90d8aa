// What a checkpoint says of how good its network is, for the run that goes on from it.
#pragma once

#include <optional>

#include "convoy/train/checkpoint_folder.h"
#include "train/run/inputs.h"

namespace convoy::train {

struct SavedScore {
  bool evaluated = false;       // nothing more is to be found out of its network
  std::optional<double> score;  // of what the best checkpoint goes by; as Evaluation::score
  bool target_reached = false;  // training.target, by that score
  // The best score among the checkpoints that this run goes on from, of what it measures now;
  // nothing: none of them has one.
  std::optional<double> best;
};

// A score of another figure, or one measured on something else, says nothing: the owner of the run
// folder then tells so, and whether training.target was reached is left to another evaluation.
// Collective.
SavedScore saved_score(const Inputs& inputs, const CheckpointFolder& checkpoints,
                       const Manifest& saved);

}  // namespace convoy::train
