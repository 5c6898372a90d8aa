// How long the layers of a network take on this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "convoy/model/stage.h"
#include "train/planning/stopwatch.h"

namespace convoy::train {

struct LayerTime {
  double forward_s = 0;
  double backward_s = 0;  // 0 where there is nothing to compute
};

struct NetworkTime {
  LayerTime whole;
  std::vector<LayerTime> layers;  // of all stages, one after the other
};

// Medians of `repetitions` passes in training mode: of the whole network, and of each layer alone.
// What runs in place in the network doesn't when it is measured alone. Leaves gradients behind.
NetworkTime time_network(model::StagedNetwork& network, const model::Tensors& inputs,
                         int repetitions, Stopwatch watch = Stopwatch());

// Times one pass, and the way back from its output.
LayerTime time_pass(const std::function<torch::Tensor()>& compute, int repetitions,
                    Stopwatch watch = Stopwatch());

// Times stages as wholes, one after the other. Their gradients are new in each pass, or are added
// to what there is.
std::vector<LayerTime> time_stages(const std::vector<std::shared_ptr<model::Stage>>& stages,
                                   const std::vector<torch::Tensor>& inputs, int repetitions,
                                   bool fresh_gradients, Stopwatch watch = Stopwatch());

}  // namespace convoy::train
