// Data with any number of labels for each sample, and tasks that know none of that.
#pragma once

#include <string>

#include "convoy/base/error.h"
#include "convoy/train/task.h"

namespace convoy::train {

// Throws UsageError for lists of labels where the task takes one for each sample. `what` names the
// data.
inline void check_labels(const Task& task, const std::string& name, const data::Dataset& data,
                         const std::string& what) {
  if (!data.label_lists() || task.takes_label_lists()) return;
  throw UsageError(what + " has any number of labels for each sample; the task " + name +
                   " takes one each: set task.name = \"one_vs_all\"");
}

}  // namespace convoy::train
