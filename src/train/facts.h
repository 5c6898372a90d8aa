// What a task knows of the data, in a checkpoint's manifest.
#pragma once

#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/task.h"

namespace convoy::train {

void note(const TaskFacts& facts, Manifest& manifest);
// Of a manifest of any format.
TaskFacts facts_of(const Manifest& manifest);

}  // namespace convoy::train
