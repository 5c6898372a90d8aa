// A network of three layers, whose steps can be worked out by hand.
#pragma once

#include "convoy/plan/placement.h"

namespace convoy::plan {

// Four samples take 0.4 s and 0.8 s in the convolution, 0.08 and 0.16, and 0.04 and 0.08 in the two
// fully connected layers.
inline TrainingCost network() {
  TrainingCost cost;
  cost.layers = {{.name = "conv",
                  .units = 10,
                  .gradients = {{1e5}},
                  .output_values = 1e4,
                  .gathered = true,
                  .activation_bytes = 100,
                  .times = {{4, 0, 0.4, 0.8}}},
                 {.name = "fc1",
                  .units = 8,
                  .gradients = {{8e5}},
                  .output_values = 5e3,
                  .gathered = true,
                  .activation_bytes = 10,
                  .times = {{4, 0, 0.08, 0.16}}},
                 {.name = "fc2",
                  .units = 4,
                  .gradients = {{4e5}},
                  .output_values = 2.5e3,
                  .gathered = true,
                  .activation_bytes = 1,
                  .times = {{4, 0, 0.04, 0.08}}}};
  cost.head = 1;
  cost.boundary_values = 1e4;
  cost.update_s_per_byte = 1e-7;
  return cost;
}

inline constexpr Network kLinks{.bandwidth_bytes_per_s = 1e6};
// What ranks tell each other in a step.
inline double agreed(int rounds) { return 8e-6 * rounds; }

inline StepForecast step(const Placement& placement, int world,
                         const TrainingCost& cost = network()) {
  return forecast(cost, kLinks, {}, world, 4, placement);
}

}  // namespace convoy::plan
