// How long the layers of a network take on this machine. No Torch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/model/blueprint.h"

namespace convoy::cli {

struct LayerTime {
  double forward_s = 0;
  double backward_s = 0;  // 0 where there is nothing to compute
};

struct NetworkTime {
  int threads = 0;
  LayerTime whole;
  std::vector<LayerTime> layers;  // of all stages, one after the other
};

// Medians of `repetitions` passes in training mode over a batch of so many images: of the whole
// network, and of each layer alone. What runs in place in the network doesn't when it is measured
// alone.
NetworkTime measure_network(const model::Blueprint& network, std::int64_t batch, int repetitions);

}  // namespace convoy::cli
