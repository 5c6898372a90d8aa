// What a task knows of the data, in a checkpoint's manifest.
#pragma once

#include <string>

#include "convoy/train/checkpoint_folder.h"
#include "convoy/train/task.h"

namespace convoy::train {

// What samples look like where they are images; else nothing.
data::Shape image_of(const TaskFacts& facts);

void note(const TaskFacts& facts, Manifest& manifest);
// Reads the facts of a manifest of any format.
TaskFacts facts_of(const Manifest& manifest);

// For a run that goes on from the checkpoint `saved`, which is at `path`: throws UsageError naming
// the first fact of both that is another one now, unless it may differ (Task::may_differ).
void check_facts(const Task& task, const Manifest& saved, const std::string& path);

}  // namespace convoy::train
