// A network of two stages whose first one passes two tensors.
#pragma once

#include <vector>

#include "convoy/model/blueprint.h"

namespace convoy::model {

// Two branches from images of 4 channels, 9 x 7, put together along the channels, and `after`,
// which reads the 10 channels of "both"; its last layer is the output.
inline Blueprint branches(std::vector<Node> after) {
  Blueprint network{
      "Branches",
      {{4, 9, 7}},
      {{"split",
        {"image"},
        {{"a",
          layer::Convolution{.in = 4, .out = 6, .kernel = {3, 3}, .padding = {1, 1}, .groups = 2},
          {"image"},
          {}},
         {"b", layer::Relu(), {"image"}, {}}},
        {"a", "b"}},
       {"join",
        {"left", "right"},
        {{"both", layer::Concatenate{0}, {"left", "right"}, {}}},
        {after.back().name}}}};
  auto& nodes = network.stages[1].nodes;
  nodes.insert(nodes.end(), after.begin(), after.end());
  return network;
}

}  // namespace convoy::model
