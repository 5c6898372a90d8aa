#include "convoy/train/strategy.h"

#include "convoy/train/autocast.h"

namespace convoy::train {

void Strategy::load(const State& saved, const std::string& from) {
  load_module(module(), saved, from);
}

bool Strategy::infer(const Task& task, const Compute& compute, const data::Batch& batch,
                     const UseOutputs& use) {
  if (batch.size() == 0) return true;
  const TaskBatch rows = task.tensors(batch, {0, batch.size()}, compute);
  TensorList outputs;
  {
    const Autocast autocast = compute.autocast();
    outputs = forward(task.inputs(rows));
  }
  use(outputs, rows);
  return true;
}

}  // namespace convoy::train
