// What networks of inception modules are written down with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/zoo/chain.h"

namespace convoy::model {

// Stages one after the other, of which some put out the scores of an auxiliary classifier: those
// behind them pass these on.
class AuxiliaryStages {
 public:
  explicit AuxiliaryStages(Blueprint& net) : net_(net) {}

  void add(StageSpec stage) {
    for (const std::string& scores : passed_) {
      stage.inputs.push_back(scores);
      stage.outputs.push_back(scores);
    }
    net_.stages.push_back(std::move(stage));
  }
  // A stage whose output are scores, and whose input is for the next one, too.
  void add_classifier(StageSpec stage, double weight) {
    const std::string name = stage.name, scores = stage.outputs.front();
    stage.outputs = {stage.inputs.front()};
    for (const std::string& before : passed_) {
      stage.inputs.push_back(before);
      stage.outputs.push_back(before);
    }
    stage.outputs.push_back(scores);
    passed_.push_back(name);
    net_.auxiliary.push_back(weight);
    net_.stages.push_back(std::move(stage));
  }

 private:
  Blueprint& net_;
  std::vector<std::string> passed_;
};

// Branches of a stage that read its input, and are put beside one another at its end.
class Branches {
 public:
  explicit Branches(Chain& chain) : chain_(chain) {}

  // The next layer is the first of a branch.
  void begin() { first_ = true; }
  void add(std::string name, layer::Kind kind) {
    if (first_) {
      chain_.add(std::move(name), std::move(kind), {"input"});
    } else {
      chain_.add(std::move(name), std::move(kind));
    }
    first_ = false;
  }
  void end() { ends_.push_back(chain_.last()); }
  void join(std::string name) { chain_.add(std::move(name), layer::Concatenate(), ends_); }

 private:
  Chain& chain_;
  bool first_ = true;
  std::vector<std::string> ends_;
};

// The losses of auxiliary classifiers count so much (Szegedy et al. 2014).
inline constexpr double kAuxiliaryWeight = 0.3;
// Of the batch normalizations.
inline constexpr double kInceptionEpsilon = 1e-3;

}  // namespace convoy::model
