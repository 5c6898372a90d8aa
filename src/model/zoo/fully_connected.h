// Networks of fully connected layers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/zoo/chain.h"

namespace convoy::model {

// What follows each layer but the last, and how the others start.
struct HiddenUnits {
  std::string name;  // "relu": relu1, relu2, ...
  layer::Kind activation;
  layer::Weights first = layer::Weights::fan_in_uniform;
};

// Samples are flattened. Layers fc1, fc2, ... with so many units, the last of which gives the
// scores; each is a stage of its name, with what follows it. REQUIRES: positive numbers, at least
// one layer.
inline Blueprint fully_connected(std::string name, const Shape& sample,
                                 const std::vector<std::int64_t>& units,
                                 const HiddenUnits& hidden) {
  Blueprint net{std::move(name), {sample}, {}};
  std::int64_t in = elements_of(sample);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    const bool last = i + 1 == units.size();
    Chain chain("fc" + number);
    if (i == 0) chain.add("flatten", layer::Flatten());
    const auto first = last ? layer::Weights::fan_in_uniform : hidden.first;
    chain.add("fc" + number, layer::Linear{.in = in, .out = units[i], .first = first});
    if (!last) chain.add(hidden.name + number, hidden.activation);
    net.stages.push_back(chain.done());
    in = units[i];
  }
  return net;
}

}  // namespace convoy::model
