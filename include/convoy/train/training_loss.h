// What a network is trained on.
#pragma once

#include <iterator>
#include <vector>

#include "convoy/model/blueprint.h"
#include "convoy/train/task.h"

namespace convoy::train {

// Gives the task's loss of a network's outputs, and as much of that of each auxiliary one as the
// network says (Blueprint::auxiliary). The task sees one set of outputs at a time. REQUIRES: those
// of a network in training mode; `weights` are the network's.
inline torch::Tensor training_loss(const Task& task, const std::vector<double>& weights,
                                   const TensorList& outputs, const TaskBatch& rows) {
  if (weights.empty()) return task.loss(outputs, rows);
  const auto first = outputs.end() - static_cast<std::ptrdiff_t>(weights.size());
  torch::Tensor loss = task.loss({outputs.begin(), first}, rows);
  for (std::size_t i = 0; i < weights.size(); ++i)
    loss = loss + weights[i] * task.loss({first[static_cast<std::ptrdiff_t>(i)]}, rows);
  return loss;
}

}  // namespace convoy::train
