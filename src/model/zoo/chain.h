// Stages written down layer by layer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/model/blueprint.h"

namespace convoy::model {

// A stage of one input and one output. Each layer reads the one before it, unless told otherwise.
class Chain {
 public:
  explicit Chain(std::string stage) : stage_{std::move(stage), {"input"}, {}, {"input"}} {}

  Chain& add(std::string name, layer::Kind kind) {
    return add(std::move(name), std::move(kind), {last()});
  }
  Chain& add(std::string name, layer::Kind kind, std::vector<std::string> inputs) {
    stage_.nodes.push_back({name, std::move(kind), std::move(inputs), nullptr});
    stage_.outputs = {std::move(name)};
    return *this;
  }

  const std::string& last() const { return stage_.outputs.front(); }
  StageSpec done() { return std::move(stage_); }

 private:
  StageSpec stage_;
};

}  // namespace convoy::model
